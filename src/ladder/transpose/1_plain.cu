// A thread for each value: a warp reads one line and writes to 32.
#include "ladder/cuda_step.cuh"
#include "ladder/transpose/transpose.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

__global__ void transpose(View x, View out, int64_t rows) {
  let_next_begin();
  wait_for_inputs();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t r = static_cast<int64_t>(blockIdx.y) * 8 + threadIdx.y;
  if (r < rows && c < x.cols) out.set(c, r, x.get(r, c));
}

}  // namespace

void run(const Transpose& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0 || op.x.cols == 0) return;
  launch(ctx, transpose, {dim3(ceil_div(op.x.cols, 32), ceil_div(rows, 8)), dim3(32, 8)}, View(op.x), View(op.out),
         rows);
}

}  // namespace ingot::cuda::INGOT_STEP
