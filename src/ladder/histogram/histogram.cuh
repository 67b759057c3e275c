// What the steps of histogram share: walking over the values, and the bin of each.
#pragma once

#include "cuda/kernel.cuh"
#include "ladder/histogram/histogram.h"

namespace ingot::cuda::histogram_parts {

inline constexpr int kBins = 256;

struct Values {
  const std::byte* x;
  int64_t words;  // of 4 bytes: a float or four bytes
  float low, scale;
};

inline Values values_of(const Histogram& op) { return {op.x.data, op.x.cols, op.low, op.scale}; }

// Calls f(bin) for what a word holds.
template <bool kBytes, class F>
__device__ inline void each_bin(uint32_t word, const Values& values, F&& f) {
  if constexpr (kBytes) {
    f(word & 255);
    f(word >> 8 & 255);
    f(word >> 16 & 255);
    f(word >> 24);
  } else {
    const float bin = (__uint_as_float(word) - values.low) * values.scale;
    if (bin >= 0.0f && bin < 256.0f) f(static_cast<uint32_t>(bin));
  }
}

// Calls f(word) for the words of this thread, one at a time.
template <class F>
__device__ inline void each_word(const Values& values, F&& f) {
  const auto* words = reinterpret_cast<const uint32_t*>(values.x);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < values.words; i += stride)
    f(words[i]);
}

// 16 bytes at a time, four loads in flight.
template <class F>
__device__ inline void each_word_wide(const Values& values, F&& f) {
  const auto* words = reinterpret_cast<const uint32_t*>(values.x);
  const int64_t quads = values.words / 4, stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto take = [&](const uint4& v) {
    f(v.x);
    f(v.y);
    f(v.z);
    f(v.w);
  };
  int64_t i = first;
  for (; i + 3 * stride < quads; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = load_stream(words + 4 * (i + k * stride));
#pragma unroll
    for (int k = 0; k < 4; ++k) take(v[k]);
  }
  for (; i < quads; i += stride) take(load_stream(words + 4 * i));
  if (first < values.words - 4 * quads) f(words[4 * quads + first]);
}

// Calls f(bin) for all values of this thread.
template <bool kBytes, class F>
__device__ inline void each_value(const Values& values, F&& f) {
  each_word(values, [&](uint32_t word) { each_bin<kBytes>(word, values, f); });
}

// Zeros the counts and gives the kernel that counts into them to as many blocks as fill the device, or fewer.
template <class Kernel>
void count(const Histogram& op, const DeviceCtx& ctx, Kernel of_floats, Kernel of_bytes, int threads, int blocks,
           int64_t shared) {
  auto* counts = reinterpret_cast<uint32_t*>(op.counts.data);
  fill_bytes(counts, 0, 4 * kBins, ctx.stream);
  if (op.x.cols == 0) return;
  const int64_t wanted = ceil_div(op.x.cols, 4 * threads), most = int64_t{ctx.multiprocessors} * blocks;
  const Launch shape{wanted < most ? wanted : most, threads, shared};
  launch(ctx, op.bytes ? of_bytes : of_floats, shape, values_of(op), counts);
}

}  // namespace ingot::cuda::histogram_parts
