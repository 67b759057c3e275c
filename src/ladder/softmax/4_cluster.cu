// Four blocks for each row, a cluster that shares its largest and sums: shorter rows, so more blocks at a time.
#include "cuda/blocks.cuh"
#include "ladder/cuda_step.cuh"
#include "ladder/softmax/softmax.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kBlocks = 4, kThreads = 256, kFours = 4;  // up to 16,384 columns

// What a block knows of its part: the largest, and the sum of exp(x - largest).
struct Part {
  float largest, sum;
};

__global__ void __launch_bounds__(kThreads) softmax(View x, View out, bool wide) {
  auto* room = shared_memory<float>();  // 32 for sums of the block, then its part
  auto* part = reinterpret_cast<Part*>(room + 32);
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x / kBlocks;
  // Thread t has the fours t, t + kBlocks · kThreads …, so that the blocks of a row read neighbouring lines.
  const int width = x.cols, first = cluster_rank() * kThreads + static_cast<int>(threadIdx.x);
  Four v[kFours];
  float largest = -INFINITY;
#pragma unroll
  for (int j = 0; j < kFours; ++j) v[j] = get_four(x.row(r), first + j * kBlocks * kThreads, width, DType::kF32, wide);
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (4 * (first + j * kBlocks * kThreads) + k >= width) v[j].v[k] = -INFINITY;
      largest = fmaxf(largest, v[j].v[k]);
    }
  }
  largest = block_max(largest, room);
  // A part of -inf alone adds nothing to a row that has a largest.
  const float base = largest == -INFINITY ? 0.0f : largest;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += v[j].v[k] = expf(v[j].v[k] - base);
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) *part = {largest, sum};
  cluster_sync();
  float most = -INFINITY, all = 0;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) most = fmaxf(most, of_cluster(part, b)->largest);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const Part theirs = *of_cluster(part, b);
    all += theirs.largest == -INFINITY ? theirs.sum : theirs.sum * expf(theirs.largest - most);
  }
  // A part of -inf alone is zeros already; NaN where the whole row is: 0 · inf.
  const float scale = (largest == -INFINITY && most != -INFINITY ? 1.0f : expf(base - most)) / all;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) v[j].v[k] *= scale;
    put_four(out.row(r), first + j * kBlocks * kThreads, width, DType::kF32, wide, v[j]);
  }
  cluster_sync();  // others read this block's part
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  if (rows == 0) return;
  if (cols > 4 * kFours * kBlocks * kThreads || ctx.arch < 90) return cuda::run(op, ctx);
  launch_clusters(ctx, kBlocks, softmax, {dim3(kBlocks * rows), dim3(kThreads), 32 * 4 + sizeof(Part)}, View(op.x),
                  View(op.out), in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
