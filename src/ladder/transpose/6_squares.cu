// Blocks that run together cover a square of 32 tiles a side: 8 KiB of each row are read and written in one go.
#include "ladder/cuda_step.cuh"
#include "ladder/transpose/transpose.h"
#include "ladder/transpose/turn_tile.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kSide = 32;

__global__ void __launch_bounds__(kTurnThreads)
    transpose(View x, View out, int64_t rows, int64_t across, int64_t down, bool wide) {
  let_next_begin();
  wait_for_inputs();
  // Bands of kSide tiles, each from top to bottom.
  const int64_t band = blockIdx.x / (kSide * down), in_band = blockIdx.x - band * kSide * down;
  const int64_t width = min(int64_t{kSide}, across - band * kSide);
  turn_tile(x, out, rows, (band * kSide + in_band % width) * kTurnTile, in_band / width * kTurnTile, wide);
}

}  // namespace

void run(const Transpose& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0 || op.x.cols == 0) return;
  const int64_t across = ceil_div(op.x.cols, kTurnTile), down = ceil_div(rows, kTurnTile);
  launch(ctx, transpose, {dim3(across * down), dim3(kTurnThreads), kTurnBytes}, View(op.x), View(op.out), rows, across,
         down, in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
