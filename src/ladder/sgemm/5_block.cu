// 8 x 8 results for each thread: 16 values from shared memory for 64 products.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace sgemm_parts;

constexpr int kDepth = 8;

__global__ void __launch_bounds__(kThreads) sgemm(const Product p) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float a[kTile][kDepth], b[kDepth][kTile];
  const int thread = static_cast<int>(threadIdx.x), row = thread / 16 * 8, col = thread % 16 * 8;
  const TileOf tile = tile_of(static_cast<int>(blockIdx.x), p.m / kTile, p.n / kTile);
  float sums[8][8] = {};
  for (int first = 0; first < p.k; first += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kThreads) {
      a[i / kDepth][i % kDepth] = p.a[static_cast<int64_t>(tile.row + i / kDepth) * p.k + first + i % kDepth];
      b[i / kTile][i % kTile] = p.b[static_cast<int64_t>(first + i / kTile) * p.n + tile.col + i % kTile];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float x[8], y[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x[i] = a[row + i][k];
        y[i] = b[k][col + i];
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] = __fmaf_rn(x[i], y[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) p.out[static_cast<int64_t>(tile.row + row + i) * p.n + tile.col + col + j] = sums[i][j];
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  const Product p = product_of(op, ctx.rows(op.out));
  if (!p.has_tiles(kTile, kTile, kDepth)) return by_columns(p, ctx);
  by_tiles(p, ctx, sgemm, 0);
}

}  // namespace ingot::cuda::INGOT_STEP
