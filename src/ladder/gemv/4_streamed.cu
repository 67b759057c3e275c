// Rows come by bulk copies into a ring of each warp, and x stays in registers: nothing waits but for memory.
#include "ladder/cuda_step.cuh"
#include "ladder/gemv/gemv.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace gemv_parts;

// One block a multiprocessor: 8 warps with three rows of 8 KiB each in flight.
constexpr int kStages = 3, kPieces = 16, kMostCols = kPieces * 256;
constexpr int64_t kShared = int64_t{kWarps} * kStages * (kMostCols * 2 + 8);

__global__ void __launch_bounds__(kThreads, 1) gemv(const Product p) {
  let_next_begin();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  uint16_t* ring = shared_memory<uint16_t>() + warp * kStages * kMostCols;
  auto* full =
      reinterpret_cast<CopyBarrier*>(shared_memory<uint16_t>() + kWarps * kStages * kMostCols) + warp * kStages;
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) barrier_init(full + s, 1);
    barrier_inits_done();
  }
  __syncwarp();
  const int first = static_cast<int>(blockIdx.x) * kWarps + warp, step = static_cast<int>(gridDim.x) * kWarps;
  const auto give = [&](int row, int stage) {
    barrier_expect(full + stage, static_cast<uint32_t>(p.cols) * 2);
    copy_bulk(ring + stage * kMostCols, p.weight + row * p.stride, static_cast<uint32_t>(p.cols) * 2, full + stage);
  };
  if (lane == 0)  // the weight is nobody's output: no wait for inputs
    for (int s = 0; s < kStages; ++s)
      if (first + s * step < p.rows) give(first + s * step, s);
  wait_for_inputs();
  uint4 x[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int k = 8 * (32 * i + lane);
    x[i] = k < p.cols ? *reinterpret_cast<const uint4*>(p.x + k) : make_uint4(0, 0, 0, 0);
  }
  int stage = 0;
  uint32_t parity = 0;
  for (int row = first; row < p.rows; row += step) {
    barrier_wait(full + stage, parity);
    const auto* w = reinterpret_cast<const uint4*>(ring + stage * kMostCols) + lane;
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      if (8 * (32 * i + lane) < p.cols) sums[i % 4] = add_eight(sums[i % 4], w[32 * i], x[i]);
    __syncwarp();
    if (lane == 0 && row + kStages * step < p.rows) give(row + kStages * step, stage);
    const float sum = warp_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    if (lane == 0) p.out[row] = sum;
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
}

}  // namespace

void run(const Gemv& op, Ctx& ctx) {
  const Product p = product_of(op, ctx.rows(op.weight));
  if (!p.is_wide() || p.cols > kMostCols || p.cols == 0 || ctx.arch < 90) return by_warps(p, ctx);
  const int64_t blocks = std::min<int64_t>(ctx.multiprocessors, ceil_div(p.rows, kWarps));
  if (p.rows > 0) launch(ctx, gemv, {blocks, kThreads, kShared}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
