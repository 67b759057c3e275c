// The kernels for any CPU of the architecture.
#define INGOT_KERNELS kBaselineKernels
#define INGOT_ISA_NAME "baseline"
#include "ops/kernels.inc"
