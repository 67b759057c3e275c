// The attention of a new row of each of many seqs over its own past in the paged cache: heads of 128 in bf16, 32 of
// them over 8 of the KV cache.
#pragma once

#include "ladder/paged_attention.h"

namespace ingot {

struct DecodeAttention : PagedAttention {};

namespace ref {
void run(const DecodeAttention& op, Ctx& ctx);
}

namespace ladder {

// size: seqs, positions of each, heads, KV heads.
template <>
inline std::vector<LadderCase<DecodeAttention>> ladder_cases(Target target) {
  const bool small = target == Target::kEmulated;
  const int seqs = small ? 2 : 64, keys = small ? 150 : 4096, heads = small ? 4 : 32, kv_heads = small ? 2 : 8;
  return {
      {.size = {seqs, keys, heads, kv_heads},
       .dtype = "bf16",
       .limit = Limit::kRead,
       .multiplies = Multiplier::kBf16,
       .make = [=](Operands& o) { return paged_operands<DecodeAttention>(o, heads, kv_heads, seqs, 1, keys - 1); }}};
}

// Results of splits: as many as blocks run at a time on any device, and one more for each seq and KV head.
template <>
inline int64_t scratch_bytes(const DecodeAttention& op) {
  return int64_t{4} * (op.seqs * op.kv_heads * 4 + 1024) * 16 * (PagedAttention::kDim + 2);
}

}  // namespace ladder
}  // namespace ingot
