// Column c of row r lies at c ^ r: 32 banks without the 33rd column, and rows stay aligned for wider accesses.
#include "ladder/cuda_step.cuh"
#include "ladder/transpose/transpose.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kTile = 32, kRows = 8;  // a tile by 32 x 8 threads

__global__ void transpose(View x, View out, int64_t rows) {
  __shared__ float tile[kTile * kTile];
  let_next_begin();
  wait_for_inputs();
  const int64_t left = static_cast<int64_t>(blockIdx.x) * kTile, top = static_cast<int64_t>(blockIdx.y) * kTile;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kRows)
    if (top + i < rows && left + lane < x.cols) tile[i * kTile + (lane ^ i)] = x.get(top + i, left + lane);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kRows)
    if (left + i < x.cols && top + lane < rows) out.set(left + i, top + lane, tile[lane * kTile + (i ^ lane)]);
}

}  // namespace

void run(const Transpose& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0 || op.x.cols == 0) return;
  launch(ctx, transpose, {dim3(ceil_div(op.x.cols, kTile), ceil_div(rows, kTile)), dim3(kTile, kRows)}, View(op.x),
         View(op.out), rows);
}

}  // namespace ingot::cuda::INGOT_STEP
