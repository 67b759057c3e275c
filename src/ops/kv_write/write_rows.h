// What the CPU versions of KvWrite and RopeKvWrite share.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "ops/attention/cpu/attention_kernels.h"
#include "ops/ctx.h"

namespace ingot::cpu {

constexpr int kMaxHead = 1024;  // values of a head on its way to the cache, on the stack

// `x` over a head's scale: `x` itself where that is 1.
inline const float* over_scale(const float* x, int dim, float scale, float* room) {
  if (scale == 1.0f) return x;
  CHECK(dim <= kMaxHead, "head of {}", dim);
  const float inverse = 1.0f / scale;
  for (int d = 0; d < dim; ++d) room[d] = x[d] * inverse;
  return room;
}

// One head of one row into its slot.
inline void write_head(const AttentionKernels& kernel, const KvLayer& kv, int64_t slot, int head, const float* k,
                       const float* v) {
  if (kv.pairs) {
    kernel.bf16->store_key(k, kv.k_dim, kv.k_group(slot, head), slot % kKeyGroup);
    return kernel.bf16->store_value(v, kv.v_dim, kv.v_group(slot, head), slot % kValueGroup);
  }
  float room[kMaxHead];
  kernel.store_key(kv.k_dtype(), over_scale(k, kv.k_dim, kv.k_scale(head), room), kv.k_dim, kv.k_group(slot, head),
                   slot % kKeyGroup);
  kernel.store_value(kv.dtype, over_scale(v, kv.v_dim, kv.v_scale(head), room), kv.v_dim, kv.v_row(slot, head));
}

// Calls body(t) for all rows. Neighbours share the cache lines of a group of keys: a thread takes up to 16 of them.
template <class F>
void for_neighbours(Ctx& ctx, int64_t rows, const F& body) {
  const int64_t each = std::clamp<int64_t>(rows / (2 * ctx.pool.threads()), 1, kKeyGroup);
  ctx.pool.run((rows + each - 1) / each, [&](int64_t i, int) {
    for (int64_t t = i * each; t < std::min(rows, (i + 1) * each); ++t) body(t);
  });
}

}  // namespace ingot::cpu
