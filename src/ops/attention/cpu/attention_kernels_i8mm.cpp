// The attention kernels for AArch64 with i8mm and bf16.
#define INGOT_ISA i8mm
#include "ops/attention/cpu/attention_table.h"

namespace ingot::cpu {

extern const AttentionKernels kI8mmAttentionKernels;
const AttentionKernels kI8mmAttentionKernels = i8mm::kAttentionTable;

}  // namespace ingot::cpu
