// Eight results of a column for each thread: a value of b from shared memory is used eight times in a register.
#include "ladder/cuda_step.cuh"
#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace sgemm_parts;

constexpr int kSide = 64, kDepth = 8, kColumn = 8, kOwnThreads = kSide * kSide / kColumn;

__global__ void __launch_bounds__(kOwnThreads) sgemm(const Product p) {
  let_next_begin();
  wait_for_inputs();
  __shared__ float a[kSide][kDepth], b[kDepth][kSide];
  const int thread = static_cast<int>(threadIdx.x), col = thread % kSide, row = thread / kSide * kColumn;
  const int first_row = static_cast<int>(blockIdx.y) * kSide, first_col = static_cast<int>(blockIdx.x) * kSide;
  float sums[kColumn] = {};
  for (int first = 0; first < p.k; first += kDepth) {
    a[thread / kDepth][thread % kDepth] =
        p.a[static_cast<int64_t>(first_row + thread / kDepth) * p.k + first + thread % kDepth];
    b[thread / kSide][col] = p.b[static_cast<int64_t>(first + thread / kSide) * p.n + first_col + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const float y = b[k][col];
#pragma unroll
      for (int i = 0; i < kColumn; ++i) sums[i] = __fmaf_rn(a[row + i][k], y, sums[i]);
    }
    __syncthreads();
  }
  for (int i = 0; i < kColumn; ++i) p.out[static_cast<int64_t>(first_row + row + i) * p.n + first_col + col] = sums[i];
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  const Product p = product_of(op, ctx.rows(op.out));
  if (!p.has_tiles(kSide, kSide, kDepth)) return by_columns(p, ctx);
  if (!p.is_empty()) launch(ctx, sgemm, {dim3(p.n / kSide, p.m / kSide), kOwnThreads}, p);
}

}  // namespace ingot::cuda::INGOT_STEP
