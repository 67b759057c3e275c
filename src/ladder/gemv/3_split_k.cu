// The warps of a block share its rows by columns: a lane keeps its values of x in registers for eight rows.
#include "ladder/cuda_step.cuh"
#include "ladder/gemv/gemv.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace gemv_parts;

constexpr int kRows = 8;

__global__ void __launch_bounds__(kThreads) gemv(const Product p) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[kWarps][kRows];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = static_cast<int>(blockIdx.x) * kRows, rows = min(kRows, p.rows - first);
  const uint16_t* weight = p.weight + first * p.stride;
  float sums[kRows] = {};
  for (int k = static_cast<int>(threadIdx.x) * 8; k < p.cols; k += kThreads * 8) {
    const uint4 x = *reinterpret_cast<const uint4*>(p.x + k);
    uint4 w[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (r < rows) w[r] = load_stream(weight + r * p.stride + k);
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] = r < rows ? add_eight(sums[r], w[r], x) : 0.0f;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = warp_sum(sums[r]);
    if (lane == 0) room[warp][r] = sum;
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) >= rows) return;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += room[w][threadIdx.x];
  p.out[first + static_cast<int>(threadIdx.x)] = sum;
}

}  // namespace

void run(const Gemv& op, Ctx& ctx) {
  const Product p = product_of(op, ctx.rows(op.weight));
  if (!p.is_wide()) return by_warps(p, ctx);
  if (p.rows > 0) launch(ctx, gemv, {ceil_div(p.rows, kRows), kThreads}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
