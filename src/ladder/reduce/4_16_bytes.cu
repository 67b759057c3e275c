// Loads of 16 bytes, four of a thread in flight, hide the way to memory; a second kernel adds the blocks' sums.
#include "ladder/cuda_step.cuh"
#include "ladder/reduce/reduce.cuh"
#include "ladder/reduce/reduce.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace reduce_parts;

__global__ void __launch_bounds__(kThreads) reduce(const float* x, int64_t n, float* sums) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[32];
  const float sum = block_sum(sum_wide(x, n), room);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_up(const float* sums, int count, float* out) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[32];
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) sum += sums[i];
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) *out = sum;
}

}  // namespace

void run(const Reduce& op, Ctx& ctx) {
  const int64_t n = op.x.cols, blocks = blocks_for(n);
  auto* sums = reinterpret_cast<float*>(ctx.scratch);
  launch(ctx, reduce, {blocks, kThreads}, reinterpret_cast<const float*>(op.x.data), n, sums);
  launch(ctx, add_up, {1, kThreads}, sums, blocks, reinterpret_cast<float*>(op.out.data));
}

}  // namespace ingot::cuda::INGOT_STEP
