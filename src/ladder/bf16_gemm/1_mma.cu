// Matrix instructions on fragments that every warp reads from memory itself, 4 bytes a lane: 32 x 32 results for each.
#include "ladder/bf16_gemm/bf16_gemm.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kSide = 32, kWarps = 4;  // two by two of them in a block

__device__ uint32_t pair_at(const GemmMatrix& x, int64_t row, int64_t col) {
  return row < x.rows && col < x.cols ? *reinterpret_cast<const uint32_t*>(x.row(row) + col * 2) : 0u;
}

__global__ void __launch_bounds__(32 * kWarps) gemm(GemmMatrix a, GemmMatrix b, View out) {
  let_next_begin();
  wait_for_inputs();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4,
            t = lane % 4;
  const int64_t row = (int64_t{blockIdx.y} * 2 + warp / 2) * kSide, col = (int64_t{blockIdx.x} * 2 + warp % 2) * kSide;
  float acc[2][4][4] = {};
  for (int64_t k = 0; k < a.cols; k += 16) {
    uint32_t of_b[4][2];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      of_b[n][0] = pair_at(b, col + 8 * n + g, k + 2 * t);
      of_b[n][1] = pair_at(b, col + 8 * n + g, k + 2 * t + 8);
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      uint32_t of_a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) of_a[i] = pair_at(a, row + 16 * m + g + i % 2 * 8, k + 2 * t + i / 2 * 8);
#pragma unroll
      for (int n = 0; n < 4; ++n) multiply_bf16(acc[m][n], of_a, of_b[n]);
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        store_pair(out, a.rows, row + 16 * m + 8 * h + g, col + 8 * n + 2 * t, acc[m][n][2 * h], acc[m][n][2 * h + 1]);
    }
  }
}

}  // namespace

void run(const Bf16Gemm& op, Ctx& ctx) {
  const GemmMatrix a(op.a, ctx), b(op.b, ctx);
  if (a.rows == 0 || b.rows == 0) return;
  launch(ctx, gemm, {dim3(ceil_div(b.rows, 2 * kSide), ceil_div(a.rows, 2 * kSide)), dim3(32 * kWarps)}, a, b,
         View(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
