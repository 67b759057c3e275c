// 16 bytes of each lane at a time, four loads in flight.
#include "ladder/cuda_step.cuh"
#include "ladder/gemv/gemv.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace gemv_parts;

__global__ void __launch_bounds__(kThreads) gemv(const Product p) {
  let_next_begin();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row >= p.rows) return;
  const uint16_t* weight = p.weight + row * p.stride;
  float sum = 0;
  for (int k = static_cast<int>(threadIdx.x) % 32 * 8; k < p.cols; k += 4 * 256) {
    uint4 w[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (k + 256 * i < p.cols) w[i] = load_stream(weight + k + 256 * i);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (k + 256 * i < p.cols) sum = add_eight(sum, w[i], *reinterpret_cast<const uint4*>(p.x + k + 256 * i));
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) p.out[row] = sum;
}

}  // namespace

void run(const Gemv& op, Ctx& ctx) {
  const Product p = product_of(op, ctx.rows(op.weight));
  if (!p.is_wide()) return by_warps(p, ctx);
  if (p.rows > 0) launch(ctx, gemv, {ceil_div(p.rows, kWarps), kThreads}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
