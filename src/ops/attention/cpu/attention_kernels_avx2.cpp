#define INGOT_KERNELS kAvx2AttentionKernels
#define INGOT_ISA_NAME "avx2"
#include "ops/attention/cpu/attention_table.h"
