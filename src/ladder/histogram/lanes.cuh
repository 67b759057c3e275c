// Counts for each lane: counter b of lane l lies in bank l, so the lanes of a warp never wait for each other, whatever
// the values are.
#pragma once

#include "ladder/histogram/histogram.cuh"

namespace ingot::cuda::histogram_parts {

inline constexpr int kLaneThreads = 512, kLaneBlocks = 3;
inline constexpr int kRow = 32 * 4;  // bytes of a bin's counters
inline constexpr int64_t kLaneShared = (kBins + 1) * kRow;

// Calls f(kRow · bin) for what a word holds, without a branch: what has no bin is counted behind the last. Of bytes it
// is a shift and a mask each.
template <bool kBytes, class F>
__device__ inline void each_row(uint32_t word, const Values& values, F&& f) {
  constexpr uint32_t kMask = 255 * kRow;
  if constexpr (kBytes) {
    f(word << 7 & kMask);
    f(word >> 1 & kMask);
    f(word >> 9 & kMask);
    f(word >> 17 & kMask);
  } else {
    const float bin = (__uint_as_float(word) - values.low) * values.scale;
    const int row = static_cast<int>(bin >= 0.0f && bin < 256.0f ? bin : 256.0f);
    f(static_cast<uint32_t>(row) * kRow);
  }
}

// Adds the 32 copies of each bin to the global counts. Each lane begins at another copy: no two in one bank.
__device__ inline void add_lanes(const uint32_t* own, uint32_t* counts) {
  for (unsigned bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    uint32_t sum = 0;
#pragma unroll 8
    for (unsigned l = 0; l < 32; ++l) sum += own[bin * 32 + ((l + bin) & 31)];
    if (sum != 0) atomicAdd(counts + bin, sum);
  }
}

template <bool kBytes, bool kWide>
__global__ void __launch_bounds__(kLaneThreads, kLaneBlocks) count_by_lanes(const Values values, uint32_t* counts) {
  let_next_begin();
  wait_for_inputs();
  uint32_t* own = shared_memory<uint32_t>();
  for (int i = static_cast<int>(threadIdx.x); i < (kBins + 1) * 32; i += kLaneThreads) own[i] = 0;
  __syncthreads();
  auto* mine = reinterpret_cast<std::byte*>(own);
  const uint32_t lane = (threadIdx.x & 31) * 4;
  const auto add = [&](uint32_t row) { atomicAdd(reinterpret_cast<uint32_t*>(mine + (row | lane)), 1u); };
  const auto take = [&](uint32_t word) { each_row<kBytes>(word, values, add); };
  if constexpr (kWide) {
    each_word_wide(values, take);
  } else {
    each_word(values, take);
  }
  __syncthreads();
  add_lanes(own, counts);
}

}  // namespace ingot::cuda::histogram_parts
