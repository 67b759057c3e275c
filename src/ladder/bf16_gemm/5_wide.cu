// Tiles of 128 x 256: 85 operations for each byte that comes into shared memory in place of 64, 128 sums a thread.
#include "ladder/bf16_gemm/group.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Bf16Gemm& op, Ctx& ctx) {
  if (!run_specialized<GemmTile<256>, 0>(op, ctx, false)) bf16_gemm_2_stages::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
