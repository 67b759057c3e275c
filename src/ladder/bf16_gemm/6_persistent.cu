// Blocks stay: the next tile's stages come while results are written. Tiles in bands of 8 rows, for the cache.
#include "ladder/bf16_gemm/group.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Bf16Gemm& op, Ctx& ctx) {
  if (!run_specialized<GemmTile<256>, 8>(op, ctx, true)) bf16_gemm_2_stages::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
