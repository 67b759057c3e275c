// The attention of a prompt's rows, each over itself and those before it: heads of 128 in bf16, 32 of them over 8 of
// the KV cache.
#pragma once

#include "ladder/paged_attention.h"

namespace ingot {

struct PromptAttention : PagedAttention {};

namespace ref {
void run(const PromptAttention& op, Ctx& ctx);
}

namespace ladder {

// size: rows, heads, KV heads.
template <>
inline std::vector<LadderCase<PromptAttention>> ladder_cases(Target target) {
  const bool small = target == Target::kEmulated;
  const int heads = small ? 4 : 32, kv_heads = small ? 2 : 8;
  std::vector<LadderCase<PromptAttention>> cases;
  for (const int rows : small ? std::vector<int>{70} : std::vector<int>{1024, 4096, 16384})
    cases.push_back(
        {.size = {rows, heads, kv_heads},
         .dtype = "bf16",
         .multiplies = Multiplier::kBf16,
         .unit = "TFLOP/s",
         .make = [=](Operands& o) { return paged_operands<PromptAttention>(o, heads, kv_heads, 1, rows, 0); }});
  return cases;
}

// The scores of one head.
template <>
inline int64_t scratch_bytes(const PromptAttention& op) {
  return int64_t{4} * op.seqs * op.rows * (op.past + op.rows);
}

}  // namespace ladder
}  // namespace ingot
