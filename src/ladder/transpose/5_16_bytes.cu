// 16 bytes at every access: a thread turns 4 x 4 values in registers, and tiles are 64 x 64, 256 bytes of every row.
#include "ladder/cuda_step.cuh"
#include "ladder/transpose/transpose.h"
#include "ladder/transpose/turn_tile.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

__global__ void __launch_bounds__(kTurnThreads) transpose(View x, View out, int64_t rows, bool wide) {
  let_next_begin();
  wait_for_inputs();
  turn_tile(x, out, rows, static_cast<int64_t>(blockIdx.x) * kTurnTile, static_cast<int64_t>(blockIdx.y) * kTurnTile,
            wide);
}

}  // namespace

void run(const Transpose& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0 || op.x.cols == 0) return;
  launch(ctx, transpose,
         {dim3(ceil_div(op.x.cols, kTurnTile), ceil_div(rows, kTurnTile)), dim3(kTurnThreads), kTurnBytes}, View(op.x),
         View(op.out), rows, in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
