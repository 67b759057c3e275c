// The kernels for x86-64 with AVX-512 F, BW, VL and DQ.
#define INGOT_ISA avx512
#include "matmul/cpu/kernels_table.h"

namespace ingot::cpu {

extern const Kernels kAvx512Kernels;
const Kernels kAvx512Kernels = avx512::kKernelTable;

}  // namespace ingot::cpu
