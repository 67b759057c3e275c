#define INGOT_KERNELS kAvx512AttentionKernels
#define INGOT_ISA_NAME "avx512"
#include "ops/attention/cpu/attention_table.h"
