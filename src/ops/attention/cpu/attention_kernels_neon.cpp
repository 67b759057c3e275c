// The attention kernels for AArch64, every one of which has NEON.
#define INGOT_ISA neon
#include "ops/attention/cpu/attention_table.h"

namespace ingot::cpu {

extern const AttentionKernels kNeonAttentionKernels;
const AttentionKernels kNeonAttentionKernels = neon::kAttentionTable;

}  // namespace ingot::cpu
