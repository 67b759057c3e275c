// Tiles of 128 x 128 through a ring of four stages in shared memory, fragments by ldmatrix. Serves before Hopper.
#include "ladder/bf16_gemm/bf16_gemm.cuh"
#include "ladder/cuda_step.cuh"
#include "matmul/cuda/gemm_clusters.h"

namespace ingot::cuda::INGOT_STEP {

void run(const Bf16Gemm& op, Ctx& ctx) {
  if (ctx.rows(op.a) == 0 || ctx.rows(op.b) == 0) return;
  Weight weight;
  weight.format = Format::kBF16;
  weight.rows = ctx.rows(op.b);
  weight.cols = op.b.cols;
  weight.row_bytes = 2 * op.b.cols;
  weight.data = op.b.data;
  PartOut out;
  out.out = View(op.out);
  run_gemm_tiles(View(op.a), weight, out, ctx.rows(op.a), ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
