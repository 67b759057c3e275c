// Heads into a cache of q8_0, whose blocks need the largest of 32 values of a head: a warp for each head of a row.
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 4;

// q's heads first, then k's, then v's.
__global__ void __launch_bounds__(32 * kWarps) linear_heads_warps(const HeadsInput args, int64_t rows) {
  let_next_begin();
  const HeadsArgs& to = args.to;
  const int heads = args.q_heads + 2 * to.kv_heads;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32, row = item / heads;
  int head = static_cast<int>(item % heads);
  const int slot = row < rows ? to.slot[row] : -1;  // of the batch: there before the step's first kernel
  wait_for_inputs();
  if (row >= rows) return;
  const Rotation rotation{reinterpret_cast<const float*>(to.table.row(row)), to.table.cols, to.interleaved};
  const auto of = [&](const View& from, const float* bias, int column) {
    return from.get(row, column) + (bias != nullptr ? bias[column] : 0.0f);
  };
  if (head < args.q_heads) {
    const int begin = head * to.head_dim;
    const auto value = [&](int i) { return of(args.q, args.q_bias, begin + i); };
    for (int i = static_cast<int>(threadIdx.x) % 32; i < to.head_dim; i += 32)
      to.q.set(row, begin + i, rotation.rotated(i, value));
    return;
  }
  if (slot < 0) return;
  head -= args.q_heads;
  if (head < to.kv_heads) {
    const auto value = [&](int i) { return of(args.k, args.k_bias, head * to.kv.k_dim + i); };
    kv_write_row(to.kv.key(slot, head), [&](int i) { return rotation.rotated(i, value); });
  } else {
    head -= to.kv_heads;
    kv_write_row(to.kv.value(slot, head), [&](int i) { return of(args.v, args.v_bias, head * to.kv.v_dim + i); });
  }
}

}  // namespace

bool finish_heads_by_warps(const DeviceProduct& product, const View& q, const View& k, const View& v, int64_t rows,
                           const DeviceCtx& ctx) {
  const HeadsEnd& heads = product.heads;
  // In place, a lane would turn what another has yet to read.
  if (heads.kv.dtype != DType::kQ8_0 || heads.q_norm.weight != nullptr || heads.k_norm.weight != nullptr ||
      q.data == heads.q.data)
    return false;
  const HeadsInput args = heads_input(product, q, k, v);
  const int64_t warps = rows * (args.q_heads + 2 * args.to.kv_heads);
  launch(ctx, linear_heads_warps, {dim3(static_cast<unsigned>(ceil_div(warps, kWarps))), dim3(32 * kWarps)}, args,
         rows);
  return true;
}

}  // namespace ingot::cuda
