// The row stays in registers, 32 values a thread: it is read once. Two rows at a time on a multiprocessor.
#include "ladder/cuda_step.cuh"
#include "ladder/softmax/softmax.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

// kFours fours a thread; the row is not longer than 4 · kFours · kThreads.
template <int kFours, int kThreads>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads) softmax(View x, View out, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int width = x.cols, first = static_cast<int>(threadIdx.x);
  Four v[kFours];
  float largest = -INFINITY;
#pragma unroll
  for (int j = 0; j < kFours; ++j) v[j] = get_four(x.row(blockIdx.x), first + j * kThreads, width, DType::kF32, wide);
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (4 * (first + j * kThreads) + k >= width) v[j].v[k] = -INFINITY;
      largest = fmaxf(largest, v[j].v[k]);
    }
  }
  largest = block_max(largest, room);
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += v[j].v[k] = expf(v[j].v[k] - largest);
  }
  const float inverse = 1.0f / block_sum(sum, room);
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) v[j].v[k] *= inverse;
    put_four(out.row(blockIdx.x), first + j * kThreads, width, DType::kF32, wide, v[j]);
  }
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  if (rows == 0) return;
  if (cols > 32 * 512) return cuda::run(op, ctx);
  const bool wide = in_fours(op.x) && in_fours(op.out);
  const auto give = [&](auto kernel, int threads) {
    launch(ctx, kernel, {dim3(rows), dim3(threads)}, View(op.x), View(op.out), wide);
  };
  if (cols <= 4 * 128) return give(softmax<1, 128>, 128);
  if (cols <= 16 * 256) return give(softmax<4, 256>, 256);
  give(softmax<8, 512>, 512);
}

}  // namespace ingot::cuda::INGOT_STEP
