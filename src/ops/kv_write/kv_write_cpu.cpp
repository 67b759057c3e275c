#include "ops/kv_write/kv_write.h"
#include "ops/kv_write/store_row.h"

namespace ingot::cpu {

void run(const KvWrite& op, Ctx& ctx) {
  const KvLayer& kv = op.kv;
  const std::vector<int32_t>& slots = ctx.batch.groups[static_cast<size_t>(kv.group)].slot;
  ctx.pool.run(ctx.rows(op.k), [&](int64_t t, int) {
    const int64_t slot = slots[static_cast<size_t>(t)];
    for (int h = 0; h < kv.kv_heads; ++h) {
      store_row(op.k.f32(t) + int64_t{h} * kv.k_dim, kv.k_dim, kv.k, kv.dtype, kv.k_at(slot, h));
      store_row(op.v.f32(t) + int64_t{h} * kv.v_dim, kv.v_dim, kv.v, kv.dtype, kv.v_at(slot, h));
    }
  });
}

}  // namespace ingot::cpu
