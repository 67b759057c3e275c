// Largest and sum in one reading: a larger value scales the sum so far. Two readings in place of three, 16 bytes each.
#include "ladder/cuda_step.cuh"
#include "ladder/softmax/softmax.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

__global__ void softmax(View x, View out, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const std::byte* from = x.row(blockIdx.x);
  const int width = x.cols, first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float largest = -INFINITY, sum = 0;
  for (int i = first; 4 * i < width; i += step) {
    const Four v = get_four(from, i, width, DType::kF32, wide);
    float most = largest;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width) most = fmaxf(most, v.v[k]);
    if (most > largest) sum *= expf(largest - most);  // before the first value: 0 · 0
    largest = most;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width && v.v[k] != -INFINITY) sum += expf(v.v[k] - largest);
  }
  const float most = block_max(largest, room);
  // A thread without values, or of -inf alone, adds nothing; where the whole row is -inf all results are NaN below.
  const float inverse = 1.0f / block_sum(largest == -INFINITY && !isnan(sum) ? 0.0f : sum * expf(largest - most), room);
  for (int i = first; 4 * i < width; i += step) {
    Four v = get_four(from, i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v.v[k] = expf(v.v[k] - most) * inverse;
    put_four(out.row(blockIdx.x), i, width, DType::kF32, wide, v);
  }
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  launch(ctx, softmax, {dim3(rows), dim3(row_threads(op.x.cols))}, View(op.x), View(op.out),
         in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
