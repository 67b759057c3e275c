// The kernels for x86-64 with AVX2, FMA and F16C.
#define INGOT_KERNELS kAvx2Kernels
#define INGOT_ISA_NAME "avx2"
#define INGOT_ISA_SPACE ingot_avx2
#include "matmul/cpu/kernels.inc"
