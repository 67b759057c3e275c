// What the steps of scan share: a warp's running sums, a block's tile of 4,096 values, and words that tiles publish.
#pragma once

#include "cuda/blocks.cuh"

namespace ingot::cuda::scan_parts {

// --- A warp: 128 · kQuads values, of which lane l has every 32nd four, from the l-th on ---

// x[at …], zeros from n on.
template <int kQuads>
__device__ inline void load_quads(float4 (&v)[kQuads], const float* x, int64_t at, int64_t n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < kQuads; ++k) {
    const int64_t i = at + 4 * (32 * k + lane);
    if (i + 4 <= n) {
      const uint4 bits = load_stream(x + i);
      v[k] = make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                         __uint_as_float(bits.w));
    } else {
      v[k] = make_float4(i < n ? x[i] : 0.0f, i + 1 < n ? x[i + 1] : 0.0f, i + 2 < n ? x[i + 2] : 0.0f, 0.0f);
    }
  }
}

// Their running sums; returns the last, for every lane. Nothing is subtracted: what comes before a NaN or an infinity
// stays as it is.
template <int kQuads>
__device__ inline float scan_quads(float4 (&v)[kQuads]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float total = 0;
#pragma unroll
  for (int k = 0; k < kQuads; ++k) {
    v[k].y += v[k].x;
    v[k].z += v[k].y;
    v[k].w += v[k].z;
    float sum = v[k].w;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const float other = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum += other;
    }
    const float left = __shfl_up_sync(0xffffffffu, sum, 1);
    const float before = lane > 0 ? total + left : total;
    total += __shfl_sync(0xffffffffu, sum, 31);
    v[k] = make_float4(v[k].x + before, v[k].y + before, v[k].z + before, v[k].w + before);
  }
  return total;
}

template <int kQuads>
__device__ inline void store_quads(const float4 (&v)[kQuads], float before, float* out, int64_t at, int64_t n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < kQuads; ++k) {
    const int64_t i = at + 4 * (32 * k + lane);
    const float4 sum = make_float4(v[k].x + before, v[k].y + before, v[k].z + before, v[k].w + before);
    if (i + 4 <= n) {
      *reinterpret_cast<float4*>(out + i) = sum;
    } else {
      if (i < n) out[i] = sum.x;
      if (i + 1 < n) out[i + 1] = sum.y;
      if (i + 2 < n) out[i + 2] = sum.z;
    }
  }
}

// --- A block: a tile ---

inline constexpr int kThreads = 256, kWarps = kThreads / 32, kQuads = 4, kTile = kThreads * kQuads * 4;

// Shared memory of a block.
struct TileRoom {
  float sums[kWarps];  // of the warps
  float before;        // of the tile
  uint32_t tile;
};

// Loads and sums this thread's part of a tile. `own` is what its warp must add to it, the result the tile's sum.
__device__ inline float scan_tile(float4 (&v)[kQuads], const float* x, int64_t tile, int64_t n, TileRoom& room,
                                  float& own) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  load_quads(v, x, tile * kTile + warp * (kTile / kWarps), n);
  const float sum = scan_quads(v);
  if (threadIdx.x % 32 == 0) room.sums[warp] = sum;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) own = total;
    total += room.sums[w];
  }
  return total;
}

__device__ inline void store_tile(const float4 (&v)[kQuads], float before, float* out, int64_t tile, int64_t n) {
  store_quads(v, before, out, tile * kTile + static_cast<int>(threadIdx.x) / 32 * (kTile / kWarps), n);
}

// The next tile that no block has, for all threads.
__device__ inline int64_t next_tile(uint32_t* counter, TileRoom& room) {
  if (threadIdx.x == 0) room.tile = atomicAdd(counter, 1u);
  __syncthreads();
  return room.tile;
}

// --- Words: a sum with what it is, published at once ---

enum : uint64_t { kNoSum = 0, kOwnSum = 1, kAllSums = 2 };  // nothing yet; of the tile; of all up to it

__device__ inline uint64_t make_word(uint64_t what, float sum) { return what << 32 | __float_as_uint(sum); }
__device__ inline uint64_t what_of(uint64_t word) { return word >> 32; }
__device__ inline float sum_of(uint64_t word) { return __uint_as_float(static_cast<uint32_t>(word)); }

__device__ inline uint64_t wait_for_word(const uint64_t* from) {
  uint64_t word = look(from);
  while (what_of(word) == kNoSum) {
    look_again();
    word = look(from);
  }
  return word;
}

// The sum of words[0 … count), count < 32 · kWords, when all are there, by a warp. The order of additions is fixed.
template <int kWords>
__device__ inline float add_words(const uint64_t* words, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint64_t all[kWords] = {};
  for (bool missing = true; missing;) {
    missing = false;
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if (32 * k + lane >= count || what_of(all[k]) != kNoSum) continue;
      all[k] = look(words + 32 * k + lane);
      missing = missing || what_of(all[k]) == kNoSum;
    }
    if (missing) look_again();
  }
  __syncwarp();
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kWords; ++k) sum += sum_of(all[k]);
  return warp_sum(sum);
}

}  // namespace ingot::cuda::scan_parts
