#include "cuda/kv_rows.cuh"
#include "ops/cuda/ctx.h"
#include "ops/rope/rope.h"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 4;

// A warp for each (row, head), q's heads first.
__global__ void rope(View q, View k, View table, int head_dim, int q_width, int q_first, bool interleaved, int q_heads,
                     int heads, const int32_t* counts) {
  let_next_begin();
  wait_for_inputs();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t t = item / heads;
  const int head = static_cast<int>(item % heads);
  if (t >= counts[0]) return;
  View x = q;
  if (head >= q_heads) x = k;
  const int64_t begin =
      head < q_heads ? static_cast<int64_t>(head) * q_width + q_first : static_cast<int64_t>(head - q_heads) * head_dim;
  const Rotation rotation{reinterpret_cast<const float*>(table.row(t)), table.cols, interleaved};
  for (int p = static_cast<int>(threadIdx.x) % 32; p < rotation.rotary / 2; p += 32) {
    const int64_t first = begin + rotation.first(p), second = begin + rotation.second(p);
    float a = x.get(t, first), b = x.get(t, second);
    rotate_pair(a, b, rotation.table[p], rotation.table[p + rotation.rotary / 2]);
    x.set(t, first, a);
    x.set(t, second, b);
  }
}

}  // namespace

void run(const Rope& op, Ctx& ctx) {
  const int q_heads = static_cast<int>(op.q.cols / op.q_width());
  const int heads = q_heads + static_cast<int>(op.k.cols / op.head_dim);
  const int64_t items = ctx.rows(op.q) * heads;
  if (items == 0) return;
  launch(ctx, rope, {dim3(static_cast<unsigned>(ceil_div(items, kWarps))), dim3(32 * kWarps)}, View(op.q), View(op.k),
         View(op.table), op.head_dim, op.q_width(), op.q_first, op.interleaved, q_heads, heads, ctx.batch.counts);
}

}  // namespace ingot::cuda
