// The order of logits: by value, equal ones by their index, as one integer.
#pragma once

#include "cuda/kernel.cuh"

namespace ingot::cuda {

// Larger values have larger numbers; both zeros have the same; NaN is below all others.
__device__ inline uint32_t ordered_bits(float x) {
  if (x != x) return 0;
  const uint32_t bits = __float_as_uint(x + 0.0f);  // -0 becomes 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The value that has these bits; NaN's are of no value.
__device__ inline float ordered_value(uint32_t bits) {
  return __uint_as_float((bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits);
}

// A value as the upper half of a key.
__device__ inline uint64_t value_key(float x) { return static_cast<uint64_t>(ordered_bits(x)) << 32; }
__device__ inline float key_value(uint64_t key) { return ordered_value(static_cast<uint32_t>(key >> 32)); }

// Different for every element of a row: larger comes first, and of equal values the lower index.
__device__ inline uint64_t order_key(float x, int64_t i) {
  return value_key(x) | (0xffffffffu - static_cast<uint32_t>(i));
}
__device__ inline int32_t key_index(uint64_t key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key & 0xffffffffu));
}

// The largest over the block; every thread gets it. `room`: 32 numbers of shared memory.
__device__ inline uint64_t block_max_key(uint64_t key, uint64_t* room) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int d = 16; d > 0; d >>= 1) {
    const uint64_t other = __shfl_xor_sync(0xffffffffu, key, d);
    key = other > key ? other : key;
  }
  __syncthreads();
  if (lane == 0) room[warp] = key;
  __syncthreads();
  key = lane < warps ? room[lane] : 0;
  for (int d = 16; d > 0; d >>= 1) {
    const uint64_t other = __shfl_xor_sync(0xffffffffu, key, d);
    key = other > key ? other : key;
  }
  return key;
}

// The sum over the block, as block_max_key().
__device__ inline uint64_t block_sum_u64(uint64_t x, uint64_t* room) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  __syncthreads();
  if (lane == 0) room[warp] = x;
  __syncthreads();
  x = lane < warps ? room[lane] : 0;
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}

}  // namespace ingot::cuda
