#define INGOT_KERNELS kNeonAttentionKernels
#define INGOT_ISA_NAME "neon"
#include "ops/attention/cpu/attention_table.h"
