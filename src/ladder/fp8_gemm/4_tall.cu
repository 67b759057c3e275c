// Tiles of 256 x 128, a warpgroup has twice 64 rows: b is copied for twice as many products. Blocks stay.
#include "ladder/cuda_step.cuh"
#include "ladder/fp8_gemm/tiles.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Fp8Gemm& op, Ctx& ctx) {
  if (!run_codes<Fp8Tile<256, 1, 1, 4>, 8>(op, ctx, Sharing::kStay)) fp8_gemm_1_plain::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
