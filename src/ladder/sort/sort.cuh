// A radix sort in passes of kBits bits from the lowest, three kernels each: a tile's keys are counted by digit, counts
// become places, keys go there. Keys of one digit keep their order.
#pragma once

#include "cuda/blocks.cuh"
#include "ladder/sort/sort.h"

namespace ingot::cuda::sort_parts {

inline constexpr int kThreads = 256, kWarps = kThreads / 32, kKeys = 32, kTile = kThreads * kKeys;

// The lanes of the warp whose digit is the same, by one vote for each bit.
template <int kBits>
struct ByVotes {
  static __device__ unsigned peers(uint32_t digit) {
    unsigned mask = 0xffffffffu;
#pragma unroll
    for (int b = 0; b < kBits; ++b) mask &= lanes_alike(digit, 1u << b);
    return mask;
  }
};

struct Pass {
  const uint32_t* from;
  uint32_t* to;
  int64_t n, tiles;
  int shift;
  uint32_t* counts;  // [digits][tiles], then how many of the digit are in tiles before
  uint32_t* totals;  // [digits]
};

// Key j of this thread: those of a warp lie one after another.
__device__ inline int64_t key_at(int64_t tile, int j) {
  return tile * kTile + static_cast<int>(threadIdx.x) / 32 * (32 * kKeys) + 32 * j + static_cast<int>(threadIdx.x) % 32;
}

// What comes before each of the block's 256 values, for its thread. `room`: kWarps + 1 words.
__device__ inline uint32_t scan_block(uint32_t own, uint32_t* room) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t sum = own;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += other;
  }
  __syncthreads();
  if (lane == 31) room[warp] = sum;
  __syncthreads();
  uint32_t before = 0, all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    before += w < warp ? room[w] : 0;
    all += room[w];
  }
  if (threadIdx.x == 0) room[kWarps] = all;
  __syncthreads();
  return before + sum - own;
}

template <int kBits>
__global__ void __launch_bounds__(kThreads) count_digits(const Pass pass) {
  let_next_begin();
  wait_for_inputs();
  constexpr int kDigits = 1 << kBits;
  __shared__ uint32_t own[kDigits];
  if (threadIdx.x < kDigits) own[threadIdx.x] = 0;
  __syncthreads();
  const int64_t tile = blockIdx.x;
  for (int j = 0; j < kKeys; ++j) {
    const int64_t i = key_at(tile, j);
    if (i < pass.n) atomicAdd(own + (pass.from[i] >> pass.shift & (kDigits - 1)), 1u);
  }
  __syncthreads();
  if (threadIdx.x < kDigits) pass.counts[threadIdx.x * pass.tiles + tile] = own[threadIdx.x];
}

// A block for each digit.
static __global__ void __launch_bounds__(kThreads) place_digits(const Pass pass) {
  let_next_begin();
  wait_for_inputs();
  __shared__ uint32_t room[kWarps + 1];
  uint32_t* counts = pass.counts + blockIdx.x * pass.tiles;
  uint32_t before = 0;
  for (int64_t first = 0; first < pass.tiles; first += 4 * kThreads) {
    const int64_t at = first + 4 * threadIdx.x;
    uint32_t own[4], sum = 0;
    for (int k = 0; k < 4; ++k) {
      own[k] = at + k < pass.tiles ? counts[at + k] : 0;
      sum += own[k];
    }
    sum = before + scan_block(sum, room);
    before += room[kWarps];
    for (int k = 0; k < 4; ++k) {
      if (at + k < pass.tiles) counts[at + k] = sum;
      sum += own[k];
    }
  }
  if (threadIdx.x == 0) pass.totals[blockIdx.x] = before;
}

// Peers: whose digit is the same. kRuns: keys are put in order in shared memory first, so that those of a digit are
// written side by side.
template <int kBits, class Peers, bool kRuns>
__global__ void __launch_bounds__(kThreads) move_keys(const Pass pass) {
  let_next_begin();
  wait_for_inputs();
  constexpr int kDigits = 1 << kBits;
  __shared__ uint32_t seen[kWarps][kDigits];  // by a warp so far; then by the warps before it
  __shared__ uint32_t place[kDigits];         // of a digit's first key
  __shared__ uint32_t room[kWarps + 1];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t tile = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < kWarps * kDigits; i += kThreads) seen[i / kDigits][i % kDigits] = 0;
  __syncthreads();
  uint32_t keys[kKeys];
  uint16_t ranks[kKeys];  // among the warp's keys of this digit
#pragma unroll
  for (int j = 0; j < kKeys; ++j) keys[j] = key_at(tile, j) < pass.n ? pass.from[key_at(tile, j)] : 0xffffffffu;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const uint32_t digit = keys[j] >> pass.shift & (kDigits - 1);
    const unsigned peers = Peers::peers(digit), lower = peers & ((1u << lane) - 1);
    const uint32_t before = seen[warp][digit];
    __syncwarp();
    if (lower == 0) seen[warp][digit] = before + static_cast<uint32_t>(__popc(peers));
    __syncwarp();
    ranks[j] = static_cast<uint16_t>(before + static_cast<uint32_t>(__popc(lower)));
  }
  __syncthreads();
  const uint32_t digit = threadIdx.x;
  uint32_t own = 0;
  if (digit < kDigits) {
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t count = seen[w][digit];
      seen[w][digit] = own;
      own += count;
    }
  }
  const uint32_t first = scan_block(digit < kDigits ? pass.totals[digit] : 0, room);
  if (digit < kDigits) place[digit] = first + pass.counts[digit * pass.tiles + tile];
  if constexpr (!kRuns) {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const uint32_t d = keys[j] >> pass.shift & (kDigits - 1);
      if (key_at(tile, j) < pass.n) pass.to[place[d] + seen[warp][d] + ranks[j]] = keys[j];
    }
  } else {
    uint32_t* sorted = shared_memory<uint32_t>();
    const uint32_t start = scan_block(own, room);  // of the digit within the tile; keys that are none come last
    if (digit < kDigits) {
      for (int w = 0; w < kWarps; ++w) seen[w][digit] += start;
      place[digit] -= start;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kKeys; ++j) sorted[seen[warp][keys[j] >> pass.shift & (kDigits - 1)] + ranks[j]] = keys[j];
    __syncthreads();
    const int64_t count = pass.n - tile * kTile;
    for (int i = static_cast<int>(threadIdx.x); i < kTile && i < count; i += kThreads) {
      const uint32_t key = sorted[i];
      pass.to[place[key >> pass.shift & (kDigits - 1)] + static_cast<uint32_t>(i)] = key;
    }
  }
}

template <int kBits, class Peers, bool kRuns = false>
void sort(const Sort& op, const DeviceCtx& ctx) {
  const int64_t n = op.keys.cols, tiles = ceil_div(n, kTile);
  if (n == 0) return;
  auto* other = reinterpret_cast<uint32_t*>(ctx.scratch);
  auto* out = reinterpret_cast<uint32_t*>(op.out.data);
  Pass pass{};
  pass.n = n;
  pass.tiles = tiles;
  pass.totals = other + ceil_div(n, 64) * 64;
  pass.counts = pass.totals + 256;
  pass.from = reinterpret_cast<const uint32_t*>(op.keys.data);
  static_assert(32 / kBits % 2 == 0);  // the last pass writes out
  for (pass.shift = 0; pass.shift < 32; pass.shift += kBits) {
    pass.to = pass.shift / kBits % 2 == 0 ? other : out;
    launch(ctx, count_digits<kBits>, {tiles, kThreads}, pass);
    launch(ctx, place_digits, {1 << kBits, kThreads}, pass);
    launch(ctx, move_keys<kBits, Peers, kRuns>, {tiles, kThreads, kRuns ? kTile * 4 : 0}, pass);
    pass.from = pass.to;
  }
}

}  // namespace ingot::cuda::sort_parts
