// One atomic addition for each value: all of them queue at one address, whatever the memory could bring.
#include "ladder/cuda_step.cuh"
#include "ladder/reduce/reduce.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

__global__ void reduce(const float* x, int64_t n, float* out) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, x[i]);
}

}  // namespace

void run(const Reduce& op, Ctx& ctx) {
  auto* out = reinterpret_cast<float*>(op.out.data);
  fill_bytes(out, 0, 4, ctx.stream);
  if (op.x.cols == 0) return;
  launch(ctx, reduce, {ceil_div(op.x.cols, 256), 256}, reinterpret_cast<const float*>(op.x.data), op.x.cols, out);
}

}  // namespace ingot::cuda::INGOT_STEP
