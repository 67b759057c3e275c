// Sums of tiles, running sums of those, running sums within tiles: blocks need not wait, but x is read twice.
#include "ladder/cuda_step.cuh"
#include "ladder/scan/scan.cuh"
#include "ladder/scan/scan.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace scan_parts;

__global__ void __launch_bounds__(kThreads) add_tiles(const float* x, int64_t n, float* sums) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[32];
  float4 v[kQuads];
  load_quads(v, x, static_cast<int64_t>(blockIdx.x) * kTile + static_cast<int>(threadIdx.x) / 32 * (kTile / kWarps), n);
  float sum = 0;
  for (int k = 0; k < kQuads; ++k) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// By one block: sums_before[i] becomes what comes before tile i.
__global__ void __launch_bounds__(kThreads) scan_sums(const float* sums, int64_t count, float* sums_before) {
  let_next_begin();
  wait_for_inputs();
  __shared__ TileRoom room;
  float before = 0;
  for (int64_t tile = 0; tile * kTile < count; ++tile) {
    float4 v[kQuads];
    float own = 0;
    const float total = scan_tile(v, sums, tile, count, room, own);
    // One to the right: the last of a tile goes to the first of the next.
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int k = 0; k < kQuads; ++k) {
      const int64_t at = tile * kTile + warp * (kTile / kWarps) + 4 * (32 * k + lane);
      const float all[4] = {v[k].x, v[k].y, v[k].z, v[k].w};
      for (int i = 0; i < 4; ++i)
        if (at + i + 1 < count) sums_before[at + i + 1] = all[i] + (before + own);
    }
    before += total;
    __syncthreads();
  }
  if (threadIdx.x == 0) sums_before[0] = 0;
}

__global__ void __launch_bounds__(kThreads) scan_tiles(const float* x, const float* before, int64_t n, float* out) {
  let_next_begin();
  wait_for_inputs();
  __shared__ TileRoom room;
  float4 v[kQuads];
  float own = 0;
  scan_tile(v, x, blockIdx.x, n, room, own);
  store_tile(v, before[blockIdx.x] + own, out, blockIdx.x, n);
}

}  // namespace

void run(const Scan& op, Ctx& ctx) {
  const int64_t n = op.x.cols, tiles = ceil_div(n, kTile);
  if (n == 0) return;
  const auto* x = reinterpret_cast<const float*>(op.x.data);
  auto* sums = reinterpret_cast<float*>(ctx.scratch);
  float* before = sums + ceil_div(tiles, 4) * 4;
  launch(ctx, add_tiles, {tiles, kThreads}, x, n, sums);
  launch(ctx, scan_sums, {1, kThreads}, sums, tiles, before);
  launch(ctx, scan_tiles, {tiles, kThreads}, x, before, n, reinterpret_cast<float*>(op.out.data));
}

}  // namespace ingot::cuda::INGOT_STEP
