#include <algorithm>

#include "cuda/wgmma_fp8.cuh"
#include "ladder/cuda_multipliers.h"
#include "quant/formats/f8_e4m3.h"

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

// 64 rows of each of two warpgroups with the same 128 columns, 128 of K at a time.
constexpr int kGroups = 2, kProductRounds = 4096, kProductBytes = (kGroups * 64 + 128) * 128;

__global__ void __launch_bounds__(kGroups * 128) product_kernel(float* out) {
#if INGOT_HAS_WGMMA
  std::byte* shared = shared_memory<std::byte>();
  for (int i = static_cast<int>(threadIdx.x); i < kProductBytes; i += kGroups * 128) {
    const uint32_t hash = (static_cast<uint32_t>(i) + blockIdx.x) * 2654435761u;
    const float value = static_cast<float>(hash >> 8) * 0x1p-23f - 1;
    F8_E4M3::encode(&value, reinterpret_cast<uint8_t*>(shared + i));
  }
  shared_writes_done();
  __syncthreads();
  const MatrixPlace a = matrix_by_rows(shared + threadIdx.x / 128 * 64 * 128),
                    b = matrix_by_rows(shared + kGroups * 64 * 128);
  float d[64];
  for (int i = 0; i < kProductRounds; ++i) {
    products_begin();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) multiply_group_fp8(d, further(a, 32 * kk), further(b, 32 * kk), i + kk > 0);
    products_commit();
    products_done<1>();
  }
  products_done<0>(d);
  float all = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) all += d[i];
  if (all == 12345.0f) *out = all;  // hardly ever, and nobody reads it
#endif
}

// GFLOP/s of the best of five launches, each of so many operations.
template <class F>
double best_gflops(double flops, StreamRef stream, const F& body) {
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    Event begin, end;
    begin.record(stream);
    body();
    end.record(stream);
    end.synchronize();
    if (pass > 0) best = std::max(best, flops / end.seconds_since(begin) / 1e9);  // the first loads the kernel
  }
  return best;
}

DeviceCtx plain_ctx(StreamRef stream) {
  DeviceCtx ctx;
  ctx.stream = stream;
  ctx.overlap = false;
  return ctx;
}

}  // namespace

double measure_f32(StreamRef stream) {
  if (is_emulated()) return 0;
  const DeviceMemory out(256);
  const DeviceCtx ctx = plain_ctx(stream);
  const int blocks = 16 * device_facts().multiprocessors;
  return best_gflops(2.0 * blocks * kThreads * kChains * kRounds, stream, [&] {
    launch(ctx, fma_kernel, {dim3(blocks), dim3(kThreads)}, reinterpret_cast<float*>(out.data()), 0.5f);
  });
}

double measure_fp8(StreamRef stream) {
  const DeviceFacts facts = device_facts();
  if (is_emulated() || facts.major != 9 || facts.minor != 0) return 0;
  const DeviceMemory out(256);
  const DeviceCtx ctx = plain_ctx(stream);
  const double flops = 2.0 * facts.multiprocessors * kGroups * 64 * 128 * 128 * kProductRounds;
  return best_gflops(flops, stream, [&] {
    launch(ctx, product_kernel, {dim3(facts.multiprocessors), dim3(kGroups * 128), kProductBytes},
           reinterpret_cast<float*>(out.data()));
  });
}

}  // namespace ingot::cuda
