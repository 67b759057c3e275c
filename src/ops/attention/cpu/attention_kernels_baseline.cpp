// The attention kernels for any CPU of the architecture.
#define INGOT_ISA baseline
#include "ops/attention/cpu/attention_table.h"

namespace ingot::cpu {

extern const AttentionKernels kBaselineAttentionKernels;
const AttentionKernels kBaselineAttentionKernels = baseline::kAttentionTable;

}  // namespace ingot::cpu
