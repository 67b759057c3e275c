// Tiles of 32 x 32 in shared memory: each value that comes from global memory is used 32 times.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using sgemm_parts::Product;

constexpr int kSide = 32;

__global__ void __launch_bounds__(kSide* kSide) sgemm(const Product p) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float a[kSide][kSide], b[kSide][kSide];
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const int row = static_cast<int>(blockIdx.y) * kSide + y, col = static_cast<int>(blockIdx.x) * kSide + x;
  float sum = 0;
  for (int first = 0; first < p.k; first += kSide) {
    a[y][x] = row < p.m && first + x < p.k ? p.a[static_cast<int64_t>(row) * p.k + first + x] : 0.0f;
    b[y][x] = first + y < p.k && col < p.n ? p.b[static_cast<int64_t>(first + y) * p.n + col] : 0.0f;
    __syncthreads();
    const int end = min(kSide, p.k - first);
    for (int k = 0; k < end; ++k) sum = __fmaf_rn(a[y][k], b[k][x], sum);
    __syncthreads();
  }
  if (row < p.m && col < p.n) p.out[static_cast<int64_t>(row) * p.n + col] = sum;
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  const Product p = sgemm_parts::product_of(op, ctx.rows(op.out));
  if (!p.is_empty()) launch(ctx, sgemm, {dim3(ceil_div(p.n, kSide), ceil_div(p.m, kSide)), kSide * kSide}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
