// A tile publishes its own sum at once, and a warp looks back over 32 tiles at a time until one knows all before it.
#include "ladder/cuda_step.cuh"
#include "ladder/scan/scan.cuh"
#include "ladder/scan/scan.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace scan_parts;

// The sum of all tiles before this one. Which sums are added up depends on what is there when it looks: the bits of the
// result are those of the moment.
__device__ float sum_before(const uint64_t* words, int64_t tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0;
  for (int64_t last = tile - 1; last >= 0; last -= 32) {
    const int64_t at = last - lane;
    const uint64_t word = at >= 0 ? wait_for_word(words + at) : make_word(kAllSums, 0.0f);
    __syncwarp();
    const unsigned known = __ballot_sync(0xffffffffu, what_of(word) == kAllSums);
    const int nearest = known != 0 ? __ffs(static_cast<int>(known)) - 1 : 31;
    sum += warp_sum(lane <= nearest ? sum_of(word) : 0.0f);
    if (known != 0) break;
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    scan(const float* x, int64_t n, uint64_t* words, uint32_t* counter, float* out) {
  let_next_begin();
  wait_for_inputs();
  TileRoom& room = *shared_memory<TileRoom>();
  const int64_t tile = next_tile(counter, room);
  float4 v[kQuads];
  float own = 0;
  const float total = scan_tile(v, x, tile, n, room, own);
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) publish(words + tile, make_word(kOwnSum, total));
    const float before = sum_before(words, tile);
    if (threadIdx.x == 0) {
      publish(words + tile, make_word(kAllSums, before + total));
      room.before = before;
    }
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
