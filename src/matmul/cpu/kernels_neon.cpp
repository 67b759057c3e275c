// The kernels for AArch64, every one of which has NEON.
#define INGOT_KERNELS kNeonKernels
#define INGOT_ISA_NAME "neon"
#define INGOT_ISA_SPACE ingot_neon
#include "matmul/cpu/kernels.inc"
