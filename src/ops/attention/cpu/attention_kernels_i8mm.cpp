#define INGOT_KERNELS kI8mmAttentionKernels
#define INGOT_ISA_NAME "i8mm"
#include "ops/attention/cpu/attention_table.h"
