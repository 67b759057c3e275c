#define INGOT_KERNELS kNeonAttentionKernels
#define INGOT_ISA_NAME "neon"
#include "ops/attention/attention_kernels.inc"
