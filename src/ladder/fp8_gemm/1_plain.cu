// Codes become f16, which holds each of them, in the registers of the warp that multiplies: 32 x 32 results for each.
#include "cuda/codes.cuh"
#include "ladder/cuda_step.cuh"
#include "ladder/fp8_gemm/fp8_gemm.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

constexpr int kSide = 32, kWarps = 4;  // two by two of them in a block

// Four neighbours of K of a lane, as the two pairs of a fragment: both matrices have K in the same wrong order.
__device__ void pairs_at(const CodeMatrix& x, int64_t row, int64_t col, uint32_t& low, uint32_t& high) {
  open_codes<DType::kFp8>(row < x.rows ? *reinterpret_cast<const uint32_t*>(x.row(row) + col) : 0u, low, high);
}

__global__ void __launch_bounds__(32 * kWarps) gemm(CodeMatrix a, CodeMatrix b, CodeScales scales, View out) {
  let_next_begin();
  wait_for_inputs();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4,
            t = lane % 4;
  const int64_t row = (int64_t{blockIdx.y} * 2 + warp / 2) * kSide, col = (int64_t{blockIdx.x} * 2 + warp % 2) * kSide;
  float sums[2][4][4] = {};
  for (int s = 0; s < scales.steps; ++s) {
    float acc[2][4][4] = {};
    for (int64_t k = int64_t{s} * 128; k < (s + 1) * 128; k += 16) {
      uint32_t of_b[4][2];
#pragma unroll
      for (int n = 0; n < 4; ++n) pairs_at(b, col + 8 * n + g, k + 4 * t, of_b[n][0], of_b[n][1]);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        uint32_t of_a[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) pairs_at(a, row + 16 * m + g + 8 * i, k + 4 * t, of_a[i], of_a[i + 2]);
#pragma unroll
        for (int n = 0; n < 4; ++n) multiply_f16(acc[m][n], of_a, of_b[n]);
      }
    }
    const float of_block = scales.b(col, s);  // 32 columns are of one
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int m = i / 8, n = i / 2 % 4, h = i % 2;
      const int r = static_cast<int>(row) + 16 * m + 8 * h + g;
      const float scale = r < scales.m ? *scales.a(r, s) * of_block : 0.0f;
      sums[m][n][2 * h] += acc[m][n][2 * h] * scale;
      sums[m][n][2 * h + 1] += acc[m][n][2 * h + 1] * scale;
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int m = i / 8, n = i / 2 % 4, h = i % 2;
    const int64_t r = row + 16 * m + 8 * h + g, c = col + 8 * n + 2 * t;
    if (r < a.rows && c < out.cols)
      *reinterpret_cast<uint32_t*>(out.row(r) + c * 2) = pack_bf16(sums[m][n][2 * h], sums[m][n][2 * h + 1]);
  }
}

}  // namespace

void run(const Fp8Gemm& op, Ctx& ctx) {
  const CodeMatrix a(op.a, ctx), b(op.b, ctx);
  if (a.rows == 0 || b.rows == 0) return;
  launch(ctx, gemm, {dim3(ceil_div(b.rows, 2 * kSide), ceil_div(a.rows, 2 * kSide)), dim3(32 * kWarps)}, a, b,
         CodeScales(op, ctx), View(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
