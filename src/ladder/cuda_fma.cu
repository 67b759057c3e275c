#include <algorithm>

#include "cuda/kernel.cuh"
#include "ladder/cuda_fma.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256, kChains = 8, kRounds = 8192;  // eight sums side by side hide the latency of four cycles

__global__ void fma_kernel(float* out, float factor) {
  float sums[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) sums[c] = static_cast<float>(threadIdx.x + c);
#pragma unroll 8
  for (int i = 0; i < kRounds; ++i) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) sums[c] = __fmaf_rn(sums[c], factor, 1.0f);
  }
  float all = 0;
#pragma unroll
  for (int c = 0; c < kChains; ++c) all += sums[c];
  if (all == 12345.0f) *out = all;  // never; else nothing of it would be computed
}

}  // namespace

double measure_f32(StreamRef stream) {
  if (is_emulated()) return 0;
  const DeviceMemory out(256);
  DeviceCtx ctx;
  ctx.stream = stream;
  ctx.overlap = false;
  const int blocks = 16 * device_facts().multiprocessors;
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    Event begin, end;
    begin.record(stream);
    launch(ctx, fma_kernel, {dim3(blocks), dim3(kThreads)}, reinterpret_cast<float*>(out.data()), 0.5f);
    end.record(stream);
    end.synchronize();
    const double flops = 2.0 * blocks * kThreads * kChains * kRounds;
    if (pass > 0) best = std::max(best, flops / end.seconds_since(begin) / 1e9);  // the first loads the kernel
  }
  return best;
}

}  // namespace ingot::cuda
