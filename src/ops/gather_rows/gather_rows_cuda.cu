#include "cuda/elements.cuh"
#include "ops/cuda/ops.h"
#include "ops/gather_rows/gather_rows.h"

namespace ingot::cuda {
namespace {

// Rows of the bucket beyond the step's are filled with row 0.
__global__ void gather_rows(View x, View out, const int32_t* logit_row, const int32_t* counts, int64_t rows,
                            bool wide) {
  let_next_begin();
  wait_for_inputs();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (4 * i >= out.cols) return;
  const int32_t wanted = counts[2];
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const int64_t from = r < wanted ? logit_row[r] : 0;
    put_four(out.row(r), i, out.cols, out.dtype, wide, get_four(x.row(from), i, out.cols, x.dtype, wide));
  }
}

}  // namespace

void run(const GatherRows& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.out);
  if (rows == 0) return;
  const Launch shape = each_shape(rows, op.out.cols);
  launch(ctx, gather_rows, shape, View(op.x), View(op.out), ctx.batch.logit_row, ctx.batch.counts, rows,
         in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda
