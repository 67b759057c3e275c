#include "ops/kv_write/kv_write.h"
#include "ops/kv_write/write_rows.h"

namespace ingot::cpu {

void run(const KvWrite& op, Ctx& ctx) {
  const KvLayer& kv = op.kv;
  const AttentionKernels& kernel = attention_kernels();
  const std::vector<int32_t>& slots = ctx.batch.groups[static_cast<size_t>(kv.group)].slot;
  for_neighbours(ctx, ctx.rows(op.k), [&](int64_t t) {
    for (int h = 0; h < kv.kv_heads; ++h)
      write_head(kernel, kv, slots[static_cast<size_t>(t)], h, op.k.f32(t) + int64_t{h} * kv.k_dim,
                 op.v.f32(t) + int64_t{h} * kv.v_dim);
  });
}

}  // namespace ingot::cpu
