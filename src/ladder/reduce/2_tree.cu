// A block adds its 256 values by halves in shared memory: one atomic addition a block.
#include "ladder/cuda_step.cuh"
#include "ladder/reduce/reduce.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) reduce(const float* x, int64_t n, float* out) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float room[kThreads];
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  room[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, room[0]);
}

}  // namespace

void run(const Reduce& op, Ctx& ctx) {
  auto* out = reinterpret_cast<float*>(op.out.data);
  fill_bytes(out, 0, 4, ctx.stream);
  if (op.x.cols == 0) return;
  launch(ctx, reduce, {ceil_div(op.x.cols, kThreads), kThreads}, reinterpret_cast<const float*>(op.x.data), op.x.cols,
         out);
}

}  // namespace ingot::cuda::INGOT_STEP
