// What the later steps of reduce share. Which values are added in which order depends on their number alone, not on the
// device and not on time: the same bits every run.
#pragma once

#include "cuda/kernel.cuh"

namespace ingot::cuda::reduce_parts {

inline constexpr int kThreads = 256, kMostBlocks = 1056;  // 8 blocks for each multiprocessor of an H200

// Blocks for n values by sum_wide().
constexpr int64_t blocks_for(int64_t n) {
  const int64_t blocks = (n / 4 + 4 * kThreads - 1) / (4 * kThreads);
  return blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks;
}

// This thread's part of n values: 16 bytes at a time, four loads in flight.
__device__ inline float sum_wide(const float* x, int64_t n) {
  const int64_t quads = n / 4, stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  float sums[4] = {};
  const auto add = [&](float& sum, const uint4& v) {
    sum += (__uint_as_float(v.x) + __uint_as_float(v.y)) + (__uint_as_float(v.z) + __uint_as_float(v.w));
  };
  int64_t i = first;
  for (; i + 3 * stride < quads; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = load_stream(x + 4 * (i + k * stride));
#pragma unroll
    for (int k = 0; k < 4; ++k) add(sums[k], v[k]);
  }
  uint4 v[3] = {};
#pragma unroll
  for (int k = 0; k < 3; ++k)
    if (i + k * stride < quads) v[k] = load_stream(x + 4 * (i + k * stride));
#pragma unroll
  for (int k = 0; k < 3; ++k) add(sums[k], v[k]);
  if (first < n - 4 * quads) sums[3] += x[4 * quads + first];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The sum of a block's threads becomes sums[block]; the block that comes last adds those of all blocks. `room`: 32
// floats of shared memory; ticket: zero before and after.
__device__ inline void add_blocks(float sum, float* sums, uint32_t* ticket, float* out, float* room) {
  sum = block_sum(sum, room);
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
    __threadfence();
    room[0] = __uint_as_float(atomicInc(ticket, gridDim.x - 1));
  }
  __syncthreads();
  if (__float_as_uint(room[0]) != gridDim.x - 1) return;
  __threadfence();
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += load_fresh(sums + i);
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) *out = sum;
}

static __global__ void __launch_bounds__(kThreads)
    with_ticket(const float* x, int64_t n, float* sums, uint32_t* ticket, float* out) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[32];
  add_blocks(sum_wide(x, n), sums, ticket, out, room);
}

}  // namespace ingot::cuda::reduce_parts
