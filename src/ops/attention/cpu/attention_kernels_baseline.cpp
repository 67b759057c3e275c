#define INGOT_KERNELS kBaselineAttentionKernels
#define INGOT_ISA_NAME "baseline"
#include "ops/attention/cpu/attention_table.h"
