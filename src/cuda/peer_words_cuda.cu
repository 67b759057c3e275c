#include "cuda/kernel.cuh"
#include "cuda/peer_words.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256, kBlocks = 64;  // enough to fill any link, and little of the device

__device__ uint32_t word_of(uint32_t key, int64_t i) {
  uint32_t z = key + static_cast<uint32_t>(i) * 2654435761u;
  z = (z ^ (z >> 16)) * 2246822519u;
  return z ^ (z >> 13);
}

__global__ void write_kernel(uint32_t* to, int64_t n, uint32_t key) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += stride)
    to[i] = word_of(key, i);
}

__global__ void count_kernel(const uint32_t* from, int64_t n, uint32_t key, uint32_t* wrong) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t own = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += stride)
    own += from[i] != word_of(key, i);
  if (own > 0) atomicAdd(wrong, own);
}

DeviceCtx ctx_of(StreamRef stream) {
  DeviceCtx ctx;
  ctx.stream = stream;
  ctx.overlap = false;
  return ctx;
}

}  // namespace

void write_pattern(std::byte* to, int64_t bytes, uint32_t key, StreamRef stream) {
  launch(ctx_of(stream), write_kernel, {dim3(kBlocks), dim3(kThreads)}, reinterpret_cast<uint32_t*>(to), bytes / 4,
         key);
}

void count_wrong(const std::byte* from, int64_t bytes, uint32_t key, uint32_t* wrong, StreamRef stream) {
  launch(ctx_of(stream), count_kernel, {dim3(kBlocks), dim3(kThreads)}, reinterpret_cast<const uint32_t*>(from),
         bytes / 4, key, wrong);
}

}  // namespace ingot::cuda
