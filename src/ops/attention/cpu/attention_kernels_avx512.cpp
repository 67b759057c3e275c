// The attention kernels for x86-64 with AVX-512 F, BW, VL and DQ.
#define INGOT_ISA avx512
#include "ops/attention/cpu/attention_table.h"

namespace ingot::cpu {

extern const AttentionKernels kAvx512AttentionKernels;
const AttentionKernels kAvx512AttentionKernels = avx512::kAttentionTable;

}  // namespace ingot::cpu
