// The row stays in registers, 32 values a thread: read once, and both sums are of what is there.
#include "ladder/cuda_step.cuh"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

// kFours fours a thread; the row is not longer than 4 · kFours · kThreads.
template <int kFours, int kThreads>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    layer_norm(View x, const float* weight, const float* bias, View out, float eps, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int width = x.cols, first = static_cast<int>(threadIdx.x);
  Four v[kFours];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kFours; ++j) v[j] = get_four(x.row(blockIdx.x), first + j * kThreads, width, DType::kF32, wide);
#pragma unroll
  for (int j = 0; j < kFours; ++j) sum += (v[j].v[0] + v[j].v[1]) + (v[j].v[2] + v[j].v[3]);
  const float mean = block_sum(sum, room) / static_cast<float>(width);
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[j].v[k] -= mean;
      if (4 * (first + j * kThreads) + k < width) squares += v[j].v[k] * v[j].v[k];
    }
  }
  const float inverse = inverse_root(block_sum(squares, room), width, eps);
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    const int i = first + j * kThreads;
    const Four w = get_four(reinterpret_cast<const std::byte*>(weight), i, width, DType::kF32, wide);
    Four b = {};
    if (bias != nullptr) b = get_four(reinterpret_cast<const std::byte*>(bias), i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v[j].v[k] = v[j].v[k] * inverse * w.v[k] + b.v[k];
    put_four(out.row(blockIdx.x), i, width, DType::kF32, wide, v[j]);
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  if (rows == 0) return;
  if (cols > 32 * 512) return cuda::run(op, ctx);
  const bool wide = in_fours(op.x) && in_fours(op.out) && in_fours(op.weight) && in_fours(op.bias);
  const auto give = [&](auto kernel, int threads) {
    launch(ctx, kernel, {dim3(rows), dim3(threads)}, View(op.x), reinterpret_cast<const float*>(op.weight.data),
           reinterpret_cast<const float*>(op.bias.data), View(op.out), op.eps, wide);
  };
  if (cols <= 4 * 128) return give(layer_norm<1, 128>, 128);
  if (cols <= 16 * 256) return give(layer_norm<4, 256>, 256);
  give(layer_norm<8, 512>, 512);
}

}  // namespace ingot::cuda::INGOT_STEP
