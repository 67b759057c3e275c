// Blocks alone; the warpgroups multiply in turns, by barriers, so that one adds up while the other multiplies.
#include "ladder/cuda_step.cuh"
#include "ladder/fp8_gemm/tiles.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Fp8Gemm& op, Ctx& ctx) {
  if (!run_codes<Fp8Tile<256, 1, 1, 4, Promotion::kTurns>, 8>(op, ctx, Sharing::kStay)) fp8_gemm_1_plain::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
