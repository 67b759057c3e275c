// Products of warpgroups out of shared memory; every 128 of K they are awaited and added up, times their scales.
#include "ladder/cuda_step.cuh"
#include "ladder/fp8_gemm/tiles.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Fp8Gemm& op, Ctx& ctx) {
  if (!run_codes<Fp8Tile<128, 1, 1, 6>, 8>(op, ctx, Sharing::kEach)) fp8_gemm_1_plain::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
