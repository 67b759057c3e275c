#include "cuda/elements.cuh"
#include "cuda/order.cuh"
#include "ops/argmax/argmax.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

// A block for each row.
__global__ void argmax(View x, int32_t* out, int64_t out_stride, bool wide) {
  __shared__ uint64_t room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  uint64_t best = 0;
  for (int i = static_cast<int>(threadIdx.x); 4 * i < x.cols; i += static_cast<int>(blockDim.x)) {
    const Four v = get_four(x.row(r), i, x.cols, x.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint64_t key = 4 * i + k < x.cols ? order_key(v.v[k], 4 * i + k) : 0;
      best = key > best ? key : best;
    }
  }
  best = block_max_key(best, room);
  if (threadIdx.x == 0) out[r * out_stride] = key_index(best);
}

}  // namespace

void run(const Argmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(row_threads(op.x.cols)))};
  launch(ctx, argmax, shape, View(op.x), op.out.row<int32_t>(0), op.out.stride, in_fours(op.x));
}

}  // namespace ingot::cuda
