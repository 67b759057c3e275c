// One kernel that reads x once: each tile waits for the sum up to the one before, so the sums go from block to block.
#include "ladder/cuda_step.cuh"
#include "ladder/scan/scan.cuh"
#include "ladder/scan/scan.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace scan_parts;

__global__ void __launch_bounds__(kThreads)
    scan(const float* x, int64_t n, uint64_t* words, uint32_t* counter, float* out) {
  let_next_begin();
  wait_for_inputs();
  TileRoom& room = *shared_memory<TileRoom>();
  const int64_t tile = next_tile(counter, room);
  float4 v[kQuads];
  float own = 0;
  const float total = scan_tile(v, x, tile, n, room, own);
  if (threadIdx.x == 0) {
    const float before = tile > 0 ? sum_of(wait_for_word(words + tile - 1)) : 0.0f;
    publish(words + tile, make_word(kAllSums, before + total));
    room.before = before;
  }
  __syncthreads();
  store_tile(v, room.before + own, out, tile, n);
}

}  // namespace

void run(const Scan& op, Ctx& ctx) {
  const int64_t n = op.x.cols, tiles = ceil_div(n, kTile);
  if (n == 0) return;
  auto* words = reinterpret_cast<uint64_t*>(ctx.scratch);
  fill_bytes(words, 0, 8 * (tiles + 1), ctx.stream);
  launch_in_turn(ctx, scan, {tiles, kThreads, sizeof(TileRoom)}, reinterpret_cast<const float*>(op.x.data), n, words,
                 reinterpret_cast<uint32_t*>(words + tiles), reinterpret_cast<float*>(op.out.data));
}

}  // namespace ingot::cuda::INGOT_STEP
