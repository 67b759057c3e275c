// The definition: a block reads its row three times, for the largest, for the sum and for the values.
#include "ladder/cuda_step.cuh"
#include "ladder/softmax/softmax.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

__global__ void softmax(View x, View out) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const auto* from = reinterpret_cast<const float*>(x.row(blockIdx.x));
  auto* to = reinterpret_cast<float*>(out.row(blockIdx.x));
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float largest = -INFINITY;
  for (int i = first; i < x.cols; i += step) largest = fmaxf(largest, from[i]);
  largest = block_max(largest, room);
  float sum = 0;
  for (int i = first; i < x.cols; i += step) sum += expf(from[i] - largest);
  const float inverse = 1.0f / block_sum(sum, room);
  for (int i = first; i < x.cols; i += step) to[i] = expf(from[i] - largest) * inverse;
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows > 0) launch(ctx, softmax, {dim3(rows), dim3(256)}, View(op.x), View(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
