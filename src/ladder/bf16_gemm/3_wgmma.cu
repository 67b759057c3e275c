// Products of warpgroups out of shared memory, 64 x 128 results each; all threads copy the stages ahead.
#include "ladder/bf16_gemm/group.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using T = GemmTile<128>;

__global__ void __launch_bounds__(256, 1) gemm(GemmMatrix a, GemmMatrix b, View out) {
#if INGOT_HAS_WGMMA
  let_next_begin();
  wait_for_inputs();
  std::byte* shared = shared_memory<std::byte>();
  const int thread = static_cast<int>(threadIdx.x), group = thread / 128;
  const int64_t steps = (a.cols + T::kK - 1) / T::kK;
  int64_t row, col;
  place_tile<T, 0>(blockIdx.x, a.rows, b.rows, row, col);
  const auto copy = [&](int64_t s) {
    if (s < steps) copy_stage<T, 256>(a, b, row, col, s * T::kK, shared + s % T::kStages * T::kStage, thread);
    commit_copies();
  };
  for (int s = 0; s < T::kStages - 2; ++s) copy(s);
  float acc[1][64];
  for (int64_t s = 0; s < steps; ++s) {
    copies_done<T::kStages - 3>();
    shared_writes_done();
    __syncthreads();  // this stage is there, and the products of the one before the last are done
    copy(s + T::kStages - 2);
    start_stage<T>(acc, shared + s % T::kStages * T::kStage, group, s > 0);
    products_done<1>();
  }
  finish_tile<T>(acc);
  store_tile<T>(acc, out, a.rows, row + 64 * group, col);
#endif
}

}  // namespace

void run(const Bf16Gemm& op, Ctx& ctx) {
  const GemmMatrix a(op.a, ctx), b(op.b, ctx);
  if (a.rows == 0 || b.rows == 0) return;
  if (ctx.arch != 90) return bf16_gemm_2_stages::run(op, ctx);
  launch(ctx, gemm, {dim3(ceil_div(a.rows, T::kM) * ceil_div(b.rows, T::kN)), dim3(256), T::kBytes}, a, b,
         View(op.out));
}

}  // namespace ingot::cuda::INGOT_STEP
