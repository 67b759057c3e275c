// The kernels for any CPU of the architecture.
#define INGOT_ISA baseline
#include "matmul/cpu/kernels_table.h"

namespace ingot::cpu {

extern const Kernels kBaselineKernels;
const Kernels kBaselineKernels = baseline::kKernelTable;

}  // namespace ingot::cpu
