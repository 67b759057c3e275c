// A block for each multiprocessor: the next rows come into shared memory by bulk copies while this one is worked on.
#include "ladder/cuda_step.cuh"
#include "ladder/row_ring.cuh"
#include "ladder/softmax/softmax.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kThreads = 1024, kFours = 4;  // a row of up to 16,384 in registers
using Ring = RowRing<3>;                    // three rows of 64 KiB fill the shared memory

__global__ void __launch_bounds__(kThreads, 1) softmax(View x, View out, int64_t rows) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  Ring ring(x, shared_memory<std::byte>(), rows);
  const int me = static_cast<int>(threadIdx.x);
  for (int64_t i = 0; i < ring.mine; ++i) {
    const std::byte* row = ring.take(i);
    Four v[kFours];
    float largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      v[j] = 4 * (me + j * kThreads) < x.cols ? load_four(row, me + j * kThreads, DType::kF32)
                                              : Four{{-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
      largest = fmaxf(fmaxf(largest, fmaxf(v[j].v[0], v[j].v[1])), fmaxf(v[j].v[2], v[j].v[3]));
    }
    largest = block_max(largest, room);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) sum += v[j].v[k] = expf(v[j].v[k] - largest);
    }
    const float inverse = 1.0f / block_sum(sum, room);
    std::byte* to = out.row(ring.row(i));
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) v[j].v[k] *= inverse;
      if (4 * (me + j * kThreads) < x.cols) store_four(to, me + j * kThreads, DType::kF32, v[j]);
    }
  }
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  if (rows == 0) return;
  // Bulk copies are of 16 bytes and began with compute capability 9.0.
  if (!in_fours(op.x) || !in_fours(op.out) || cols % 4 != 0 || cols > 4 * kFours * kThreads || ctx.arch < 90)
    return cuda::run(op, ctx);
  launch(ctx, softmax, {dim3(std::min<int64_t>(rows, ctx.multiprocessors)), dim3(kThreads), Ring::bytes(cols)},
         View(op.x), View(op.out), rows);
}

}  // namespace ingot::cuda::INGOT_STEP
