// A block for each multiprocessor: the next rows come into shared memory by bulk copies while this one is worked on.
#include "ladder/cuda_step.cuh"
#include "ladder/softmax/softmax.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kThreads = 1024, kStages = 3, kFours = 4;  // a row of up to 16,384 in registers

__global__ void __launch_bounds__(kThreads, 1) softmax(View x, View out, int64_t rows) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  auto* ring = shared_memory<std::byte>();
  const int bytes = 4 * x.cols, width = x.cols, me = static_cast<int>(threadIdx.x);
  auto* barriers = reinterpret_cast<CopyBarrier*>(ring + kStages * bytes);
  const int64_t blocks = gridDim.x, first = blockIdx.x, mine = (rows - first + blocks - 1) / blocks;
  if (me == 0) {
    for (int s = 0; s < kStages; ++s) barrier_init(barriers + s, 1);
    barrier_inits_done();
  }
  __syncthreads();
  const auto give = [&](int64_t i) {
    barrier_expect(barriers + i % kStages, static_cast<uint32_t>(bytes));
    copy_bulk(ring + i % kStages * bytes, x.row(first + i * blocks), static_cast<uint32_t>(bytes), barriers + i % kStages);
  };
  if (me == 0)
    for (int64_t i = 0; i < kStages - 1 && i < mine; ++i) give(i);
  for (int64_t i = 0; i < mine; ++i) {
    // The place of the row before this one: all have read it, and met at the barriers of its sums.
    if (me == 0 && i + kStages - 1 < mine) give(i + kStages - 1);
    barrier_wait(barriers + i % kStages, static_cast<uint32_t>(i / kStages % 2));
    const std::byte* row = ring + i % kStages * bytes;
    Four v[kFours];
    float largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      v[j] = 4 * (me + j * kThreads) < width ? load_four(row, me + j * kThreads, DType::kF32)
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
    std::byte* to = out.row(first + i * blocks);
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) v[j].v[k] *= inverse;
      if (4 * (me + j * kThreads) < width) store_four(to, me + j * kThreads, DType::kF32, v[j]);
    }
  }
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  const int64_t shared = kStages * (4 * op.x.cols + static_cast<int64_t>(sizeof(CopyBarrier)));
  // Bulk copies are of 16 bytes; three rows of 64 KiB fill a multiprocessor's shared memory.
  if (!in_fours(op.x) || !in_fours(op.out) || op.x.cols % 4 != 0 || op.x.cols > 4 * kFours * kThreads ||
      ctx.arch < 90)
    return cuda::run(op, ctx);
  if (rows == 0) return;
  launch(ctx, softmax, {dim3(std::min<int64_t>(rows, ctx.multiprocessors)), dim3(kThreads), shared}, View(op.x),
         View(op.out), rows);
}

}  // namespace ingot::cuda::INGOT_STEP
