// What the steps of route share: the order of a warp's places, and three kernels.
#pragma once

#include "ladder/route/route.h"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::route_parts {

inline constexpr int kMost = 256;  // experts

// How many of the warp's places so far, and of its lanes below, have the expert. `seen`: the warp's own. kNone: no
// place.
inline constexpr uint32_t kNone = 0xffffffffu;
__device__ inline uint32_t rank_place(uint32_t expert, uint32_t* seen) {
  const unsigned below = (1u << threadIdx.x % 32) - 1, there = __ballot_sync(0xffffffffu, expert != kNone);
  const unsigned peers = sort_parts::ByVotes<8>::peers(expert) & there;
  const bool is_place = expert != kNone;
  const uint32_t before = is_place ? seen[expert] : 0;
  __syncwarp();
  if (is_place && (peers & below) == 0) seen[expert] = before + static_cast<uint32_t>(__popc(peers));
  __syncwarp();
  return before + static_cast<uint32_t>(__popc(peers & below));
}

struct Work {
  const uint32_t* experts;
  int64_t n;
  int count;
  uint32_t* place;
  uint32_t* first;
  uint32_t* counts;  // [count][tiles] of each tile; then of the tiles before
  int64_t tiles;
  uint32_t* totals;  // [count]
};

inline Work work_of(const Route& op, const DeviceCtx& ctx) {
  Work w{};
  w.experts = reinterpret_cast<const uint32_t*>(op.experts.data);
  w.n = op.experts.cols;
  w.count = op.count;
  w.place = reinterpret_cast<uint32_t*>(op.place.data);
  w.first = reinterpret_cast<uint32_t*>(op.first.data);
  w.totals = reinterpret_cast<uint32_t*>(ctx.scratch);
  w.counts = w.totals + kMost;
  return w;
}

// Three kernels; tiles of 1,024 places, so that 131,072 of them fill the device.
inline constexpr int kThreads = 256, kWarps = kThreads / 32, kPlaces = 4, kTile = kThreads * kPlaces;

static __global__ void __launch_bounds__(kThreads) count_experts(const Work w) {
  let_next_begin();
  wait_for_inputs();
  __shared__ uint32_t own[kMost];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int j = 0; j < kPlaces; ++j) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kTile + j * kThreads + threadIdx.x;
    if (i < w.n) atomicAdd(own + w.experts[i], 1u);
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < w.count) w.counts[threadIdx.x * w.tiles + blockIdx.x] = own[threadIdx.x];
}

// A block for each expert.
static __global__ void __launch_bounds__(kThreads) add_tiles(const Work w) {
  let_next_begin();
  wait_for_inputs();
  __shared__ uint32_t room[kWarps + 1];
  uint32_t* counts = w.counts + blockIdx.x * w.tiles;
  uint32_t before = 0;
  for (int64_t first = 0; first < w.tiles; first += kThreads) {
    const int64_t at = first + threadIdx.x;
    const uint32_t own = at < w.tiles ? counts[at] : 0, sum = before + sort_parts::scan_block(own, room);
    if (at < w.tiles) counts[at] = sum;
    before += room[kWarps];
  }
  if (threadIdx.x == 0) w.totals[blockIdx.x] = before;
}

static __global__ void __launch_bounds__(kThreads) put_places(const Work w) {
  let_next_begin();
  wait_for_inputs();
  __shared__ uint32_t seen[kWarps][kMost];
  __shared__ uint32_t room[kWarps + 1];
  const int e = static_cast<int>(threadIdx.x), warp = e / 32;
  for (int i = 0; i < kWarps; ++i) seen[i][e] = 0;
  const uint32_t first = sort_parts::scan_block(e < w.count ? w.totals[e] : 0, room);
  if (blockIdx.x == 0) {
    if (e < w.count) w.first[e] = first;
    if (e == 0) w.first[w.count] = static_cast<uint32_t>(w.n);
  }
  uint32_t experts[kPlaces], ranks[kPlaces];
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kTile + warp * (32 * kPlaces) + e % 32;
#pragma unroll
  for (int j = 0; j < kPlaces; ++j) experts[j] = at + 32 * j < w.n ? w.experts[at + 32 * j] : kNone;
#pragma unroll
  for (int j = 0; j < kPlaces; ++j) ranks[j] = rank_place(experts[j], seen[warp]);
  __syncthreads();
  if (e < w.count) {
    uint32_t next = first + w.counts[e * w.tiles + blockIdx.x];
    for (int i = 0; i < kWarps; ++i) {
      const uint32_t own = seen[i][e];
      seen[i][e] = next;
      next += own;
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kPlaces; ++j)
    if (experts[j] != kNone) w.place[seen[warp][experts[j]] + ranks[j]] = static_cast<uint32_t>(at + 32 * j);
}

inline void by_three_kernels(const Route& op, const DeviceCtx& ctx) {
  Work w = work_of(op, ctx);
  w.tiles = w.n > 0 ? ceil_div(w.n, kTile) : 1;
  launch(ctx, count_experts, {w.tiles, kThreads}, w);
  launch(ctx, add_tiles, {w.count, kThreads}, w);
  launch(ctx, put_places, {w.tiles, kThreads}, w);
}

}  // namespace ingot::cuda::route_parts
