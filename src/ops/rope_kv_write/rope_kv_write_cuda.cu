#include "cuda/kv_rows.cuh"
#include "ops/cuda/ctx.h"
#include "ops/kv_write/kv_place.h"
#include "ops/rope_kv_write/rope_kv_write.h"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 4;

struct Args {
  View q, k, v, table;
  KvPlace kv;
  int head_dim = 0;
  bool interleaved = false;
  int q_heads = 0, kv_heads = 0;
  const int32_t* counts = nullptr;
  const int32_t* slots = nullptr;
};

// A warp for each (row, head): q's heads first, then k's, then v's.
__global__ void rope_kv_write(Args a) {
  let_next_begin();
  wait_for_inputs();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int heads = a.q_heads + 2 * a.kv_heads;
  const int64_t t = item / heads;
  int head = static_cast<int>(item % heads);
  if (t >= a.counts[0]) return;
  const Rotation rotation{reinterpret_cast<const float*>(a.table.row(t)), a.table.cols, a.interleaved};
  if (head < a.q_heads) {
    const int64_t begin = static_cast<int64_t>(head) * a.head_dim;
    for (int p = static_cast<int>(threadIdx.x) % 32; p < rotation.rotary / 2; p += 32) {
      const int64_t first = begin + rotation.first(p), second = begin + rotation.second(p);
      float x = a.q.get(t, first), y = a.q.get(t, second);
      rotate_pair(x, y, rotation.table[p], rotation.table[p + rotation.rotary / 2]);
      a.q.set(t, first, x);
      a.q.set(t, second, y);
    }
    return;
  }
  const int slot = a.slots[t];
  if (slot < 0) return;
  head -= a.q_heads;
  if (head < a.kv_heads) {
    const auto value = [&](int i) { return a.k.get(t, head * a.kv.k_dim + i); };
    kv_write_row(a.kv.key(slot, head), [&](int i) { return rotation.rotated(i, value); });
  } else {
    head -= a.kv_heads;
    kv_write_row(a.kv.value(slot, head), [&](int i) { return a.v.get(t, head * a.kv.v_dim + i); });
  }
}

}  // namespace

void run(const RopeKvWrite& op, Ctx& ctx) {
  const Args args{.q = View(op.q),
                  .k = View(op.k),
                  .v = View(op.v),
                  .table = View(op.table),
                  .kv = kv_place(op.kv),
                  .head_dim = op.head_dim,
                  .interleaved = op.interleaved,
                  .q_heads = static_cast<int>(op.q.cols / op.head_dim),
                  .kv_heads = op.kv.kv_heads,
                  .counts = ctx.batch.counts,
                  .slots = ctx.batch.groups[op.kv.group].slot};
  const int64_t items = ctx.rows(op.q) * (args.q_heads + 2 * args.kv_heads);
  if (items == 0) return;
  launch(ctx, rope_kv_write, {dim3(static_cast<unsigned>(ceil_div(items, kWarps))), dim3(32 * kWarps)}, args);
}

}  // namespace ingot::cuda
