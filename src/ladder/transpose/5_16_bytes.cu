// 16 bytes at every access: a thread turns 4 x 4 values in registers, and tiles are 64 x 64, 256 bytes of every row.
#include "ladder/cuda_step.cuh"
#include "ladder/transpose/transpose.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kTile = 64, kPieces = kTile / 4, kThreads = kPieces * kPieces;

// Where 16-byte piece p of row c of the turned tile lies: eight threads that write pieces of rows 4, 8, 12 … and eight
// that read one row's pieces are each in eight different groups of banks.
__device__ constexpr int place(int c, int p) { return c * kPieces + (p ^ (c / 4 % kPieces)); }

__global__ void __launch_bounds__(kThreads) transpose(View x, View out, int64_t rows, bool wide) {
  auto* tile = shared_memory<std::byte>();
  let_next_begin();
  wait_for_inputs();
  const int64_t left = static_cast<int64_t>(blockIdx.x) * kTile, top = static_cast<int64_t>(blockIdx.y) * kTile;
  const int across = static_cast<int>(threadIdx.x) % kPieces, down = static_cast<int>(threadIdx.x) / kPieces;
  Four v[4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (top + 4 * down + k < rows)
      v[k] = get_four(x.row(top + 4 * down + k), left / 4 + across, x.cols, DType::kF32, wide);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Four turned = {{v[0].v[k], v[1].v[k], v[2].v[k], v[3].v[k]}};
    store_four(tile, place(4 * across + k, down), DType::kF32, turned);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int c = down + k * kPieces;
    if (left + c < x.cols)
      put_four(out.row(left + c), top / 4 + across, rows, DType::kF32, wide,
               load_four(tile, place(c, across), DType::kF32));
  }
}

}  // namespace

void run(const Transpose& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0 || op.x.cols == 0) return;
  launch(ctx, transpose, {dim3(ceil_div(op.x.cols, kTile), ceil_div(rows, kTile)), dim3(kThreads), kTile * kTile * 4},
         View(op.x), View(op.out), rows, in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
