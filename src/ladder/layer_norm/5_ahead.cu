// A block for each multiprocessor: rows come ahead by bulk copies, and weight and bias stay in registers.
#include "ladder/cuda_step.cuh"
#include "ladder/layer_norm/layer_norm.h"
#include "ladder/row_ring.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kThreads = 512, kFours = 8;  // up to 16,384 columns; with weight and bias 96 registers
using Ring = RowRing<3>;                   // three rows of 64 KiB fill the shared memory

__global__ void __launch_bounds__(kThreads, 1)
    layer_norm(View x, const float* weight, const float* bias, View out, float eps, int64_t rows) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  Ring ring(x, shared_memory<std::byte>(), rows);
  const int me = static_cast<int>(threadIdx.x), width = x.cols;
  Four w[kFours] = {}, b[kFours] = {};
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    w[j] = get_four(reinterpret_cast<const std::byte*>(weight), me + j * kThreads, width, DType::kF32, true);
    if (bias != nullptr)
      b[j] = get_four(reinterpret_cast<const std::byte*>(bias), me + j * kThreads, width, DType::kF32, true);
  }
  for (int64_t i = 0; i < ring.mine; ++i) {
    const std::byte* row = ring.take(i);
    Four v[kFours] = {};
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      if (4 * (me + j * kThreads) < width) v[j] = load_four(row, me + j * kThreads, DType::kF32);
      sum += (v[j].v[0] + v[j].v[1]) + (v[j].v[2] + v[j].v[3]);
    }
    const float mean = block_sum(sum, room) / static_cast<float>(width);
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        v[j].v[k] -= mean;
        if (4 * (me + j * kThreads) < width) squares += v[j].v[k] * v[j].v[k];
      }
    }
    const float inverse = inverse_root(block_sum(squares, room), width, eps);
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) v[j].v[k] = v[j].v[k] * inverse * w[j].v[k] + b[j].v[k];
      if (4 * (me + j * kThreads) < width) store_four(out.row(ring.row(i)), me + j * kThreads, DType::kF32, v[j]);
    }
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  if (rows == 0) return;
  const bool wide = in_fours(op.x) && in_fours(op.out) && in_fours(op.weight) && in_fours(op.bias) && cols % 4 == 0;
  if (!wide || cols > 4 * kFours * kThreads || ctx.arch < 90) return cuda::run(op, ctx);
  launch(ctx, layer_norm, {dim3(std::min<int64_t>(rows, ctx.multiprocessors)), dim3(kThreads), Ring::bytes(cols)},
         View(op.x), reinterpret_cast<const float*>(op.weight.data), reinterpret_cast<const float*>(op.bias.data),
         View(op.out), op.eps, rows);
}

}  // namespace ingot::cuda::INGOT_STEP
