#include <cstring>

#include "base/check.h"
#include "ops/kv_write/write_rows.h"
#include "ops/rope/rotate_head.h"
#include "ops/rope_kv_write/rope_kv_write.h"

namespace ingot::cpu {

void run_row(const RopeKvWrite& op, int64_t t, int64_t slot) {
  const KvLayer& kv = op.kv;
  const AttentionKernels& kernel = attention_kernels();
  CHECK(op.head_dim == kv.k_dim && op.head_dim <= kMaxHead, "head of {} for a cache of {}", op.head_dim, kv.k_dim);
  const float* table = op.table.f32(t);
  for (int64_t c = 0; c < op.q.cols; c += op.head_dim) {
    float* head = op.q.f32(t) + c;
    rotate_head(head, head, table, op.table.cols, op.interleaved);
  }
  float rotated[kMaxHead];
  for (int h = 0; h < kv.kv_heads; ++h) {
    const float* head = op.k.f32(t) + int64_t{h} * op.head_dim;
    std::memcpy(rotated, head, static_cast<size_t>(op.head_dim) * sizeof(float));
    rotate_head(head, rotated, table, op.table.cols, op.interleaved);
    write_head(kernel, kv, slot, h, rotated, op.v.f32(t) + int64_t{h} * kv.v_dim);
  }
}

void run(const RopeKvWrite& op, Ctx& ctx) {
  const std::vector<int32_t>& slots = ctx.batch.groups[static_cast<size_t>(op.kv.group)].slot;
  for_neighbours(ctx, ctx.rows(op.k), [&](int64_t t) { run_row(op, t, slots[static_cast<size_t>(t)]); });
}

}  // namespace ingot::cpu
