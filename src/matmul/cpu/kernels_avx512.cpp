// The kernels for x86-64 with AVX-512 F, BW, VL and DQ.
#define INGOT_KERNELS kAvx512Kernels
#define INGOT_ISA_NAME "avx512"
#define INGOT_ISA_SPACE ingot_avx512
#include "matmul/cpu/kernels.inc"
