// Scan in one kernel whose sums are added up in groups of 128 tiles, whoever was first.
#pragma once

#include "ladder/scan/scan.cuh"
#include "ladder/scan/scan.h"

namespace ingot::cuda::scan_parts {

inline constexpr int kGroup = 128;

// tiles: the sum of each; groups: of all tiles before each group of them, from the second on.
static __global__ void __launch_bounds__(kThreads)
    scan_groups(const float* x, int64_t n, uint64_t* tiles, uint64_t* groups, uint32_t* counter, float* out) {
  let_next_begin();
  wait_for_inputs();
  TileRoom& room = *shared_memory<TileRoom>();
  const int64_t tile = next_tile(counter, room), group = tile / kGroup;
  float4 v[kQuads];
  float own = 0;
  const float total = scan_tile(v, x, tile, n, room, own);
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) publish(tiles + tile, make_word(kOwnSum, total));
    const int in_group = static_cast<int>(tile % kGroup);
    const float inside = add_words<kGroup / 32>(tiles + group * kGroup, in_group);
    if (threadIdx.x == 0) {
      const float before = group > 0 ? sum_of(wait_for_word(groups + group)) : 0.0f;
      if (in_group == kGroup - 1) publish(groups + group + 1, make_word(kAllSums, before + (inside + total)));
      room.before = before + inside;
    }
  }
  __syncthreads();
  store_tile(v, room.before + own, out, tile, n);
}

inline void by_fixed_groups(const Scan& op, const DeviceCtx& ctx) {
  const int64_t n = op.x.cols, tiles = ceil_div(n, kTile), groups = tiles / kGroup + 1;
  if (n == 0) return;
  auto* words = reinterpret_cast<uint64_t*>(ctx.scratch);
  fill_bytes(words, 0, 8 * (tiles + groups + 1), ctx.stream);
  launch_in_turn(ctx, scan_groups, {tiles, kThreads, sizeof(TileRoom)}, reinterpret_cast<const float*>(op.x.data), n,
                 words, words + tiles, reinterpret_cast<uint32_t*>(words + tiles + groups),
                 reinterpret_cast<float*>(op.out.data));
}

}  // namespace ingot::cuda::scan_parts
