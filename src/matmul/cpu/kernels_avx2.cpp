// The kernels for x86-64 with AVX2, FMA and F16C.
#define INGOT_ISA avx2
#include "matmul/cpu/kernels_table.h"

namespace ingot::cpu {

extern const Kernels kAvx2Kernels;
const Kernels kAvx2Kernels = avx2::kKernelTable;

}  // namespace ingot::cpu
