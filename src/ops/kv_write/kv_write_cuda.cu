#include "cuda/kv_rows.cuh"
#include "ops/cuda/ctx.h"
#include "ops/kv_write/kv_place.h"
#include "ops/kv_write/kv_write.h"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 4;

// A warp for each (row, KV head).
__global__ void kv_write(View k, View v, KvPlace kv, int heads, const int32_t* counts, const int32_t* slots) {
  let_next_begin();
  wait_for_inputs();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t t = item / heads;
  const int head = static_cast<int>(item % heads);
  if (t >= counts[0]) return;
  const int slot = slots[t];
  if (slot < 0) return;
  kv_write_row(kv.key(slot, head), [&](int i) { return k.get(t, head * kv.k_dim + i); });
  kv_write_row(kv.value(slot, head), [&](int i) { return v.get(t, head * kv.v_dim + i); });
}

}  // namespace

void run(const KvWrite& op, Ctx& ctx) {
  const int64_t items = ctx.rows(op.k) * op.kv.kv_heads;
  if (items == 0) return;
  launch(ctx, kv_write, {dim3(static_cast<unsigned>(ceil_div(items, kWarps))), dim3(32 * kWarps)}, View(op.k),
         View(op.v), kv_place(op.kv), op.kv.kv_heads, ctx.batch.counts, ctx.batch.groups[op.kv.group].slot);
}

}  // namespace ingot::cuda
