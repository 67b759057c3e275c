// The kernels for any CPU of the architecture.
#define INGOT_KERNELS kBaselineKernels
#define INGOT_ISA_NAME "baseline"
#define INGOT_ISA_SPACE ingot_baseline
#include "matmul/cpu/kernels.inc"
