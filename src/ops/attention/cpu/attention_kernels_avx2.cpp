// The attention kernels for x86-64 with AVX2, FMA and F16C.
#define INGOT_ISA avx2
#include "ops/attention/cpu/attention_table.h"

namespace ingot::cpu {

extern const AttentionKernels kAvx2AttentionKernels;
const AttentionKernels kAvx2AttentionKernels = avx2::kAttentionTable;

}  // namespace ingot::cpu
