#include "cuda/elements.cuh"
#include "ops/cuda/ops.h"
#include "ops/softmax/softmax.h"

namespace ingot::cuda {
namespace {

// A block for each row: the largest, then the sum, then the values.
__global__ void softmax(View x, View out, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const int width = x.cols, first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float largest = -INFINITY;
  for (int i = first; 4 * i < width; i += step) {
    const Four v = get_four(x.row(r), i, width, x.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width) largest = fmaxf(largest, v.v[k]);
  }
  largest = block_max(largest, room);
  float sum = 0;
  for (int i = first; 4 * i < width; i += step) {
    const Four v = get_four(x.row(r), i, width, x.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width) sum += expf(v.v[k] - largest);
  }
  const float inverse = 1.0f / block_sum(sum, room);
  for (int i = first; 4 * i < width; i += step) {
    Four v = get_four(x.row(r), i, width, x.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v.v[k] = expf(v.v[k] - largest) * inverse;
    put_four(out.row(r), i, width, out.dtype, wide, v);
  }
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(row_threads(op.x.cols)))};
  launch(ctx, softmax, shape, View(op.x), View(op.out), in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda
