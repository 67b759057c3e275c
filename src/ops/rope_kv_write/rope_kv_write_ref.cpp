// By its definition: the two ops it replaces, on a copy of k.
#include <algorithm>
#include <vector>

#include "ops/kv_write/kv_write.h"
#include "ops/rope/rope.h"
#include "ops/rope_kv_write/rope_kv_write.h"

namespace ingot::ref {

void run(const RopeKvWrite& op, Ctx& ctx) {
  std::vector<float> copy(static_cast<size_t>(ctx.rows(op.k) * op.k.cols));
  Tensor k = op.k;
  k.data = reinterpret_cast<std::byte*>(copy.data());
  k.stride = op.k.cols;
  for (int64_t t = 0; t < ctx.rows(op.k); ++t) std::copy(op.k.f32(t), op.k.f32(t) + op.k.cols, k.f32(t));
  run(Rope{.q = op.q, .k = k, .table = op.table, .head_dim = op.head_dim, .interleaved = op.interleaved}, ctx);
  run(KvWrite{.k = k, .v = op.v, .kv = op.kv}, ctx);
}

}  // namespace ingot::ref
