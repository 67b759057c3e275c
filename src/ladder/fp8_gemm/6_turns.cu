// Blocks alone again. The warpgroups multiply in turns: else both end at the same time, and nobody multiplies while
// both add.
#include "ladder/cuda_step.cuh"
#include "ladder/fp8_gemm/tiles.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Fp8Gemm& op, Ctx& ctx) {
  if (!run_codes<Fp8Tile<256, 1, 1, 4, Promotion::kTurns>, 8>(op, ctx, Sharing::kStay)) fp8_gemm_1_plain::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
