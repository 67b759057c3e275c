// The kernels for AArch64, every one of which has NEON.
#define INGOT_ISA neon
#include "matmul/cpu/kernels_table.h"

namespace ingot::cpu {

extern const Kernels kNeonKernels;
const Kernels kNeonKernels = neon::kKernelTable;

}  // namespace ingot::cpu
