// Warps add in registers by shuffles, and a block walks over many values: two barriers a block, few atomics.
#include "ladder/cuda_step.cuh"
#include "ladder/reduce/reduce.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kThreads = 256, kMostBlocks = 1056;

__global__ void __launch_bounds__(kThreads) reduce(const float* x, int64_t n, float* out) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[32];
  float sum = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += stride) sum += x[i];
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

}  // namespace

void run(const Reduce& op, Ctx& ctx) {
  auto* out = reinterpret_cast<float*>(op.out.data);
  fill_bytes(out, 0, 4, ctx.stream);
  if (op.x.cols == 0) return;
  const int64_t blocks = std::min<int64_t>(kMostBlocks, ceil_div(op.x.cols, kThreads));
  launch(ctx, reduce, {blocks, kThreads}, reinterpret_cast<const float*>(op.x.data), op.x.cols, out);
}

}  // namespace ingot::cuda::INGOT_STEP
