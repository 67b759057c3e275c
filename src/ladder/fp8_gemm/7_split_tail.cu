// No turns; the tiles of the last round, too few for all multiprocessors, are cut along K: 15.5 rounds cost 15.5.
#include "ladder/cuda_step.cuh"
#include "ladder/fp8_gemm/tiles.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Fp8Gemm& op, Ctx& ctx) {
  if (!run_codes<Fp8Tile<256, 1, 1, 4>, 8>(op, ctx, Sharing::kSplit)) fp8_gemm_1_plain::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
