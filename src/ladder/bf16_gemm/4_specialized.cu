// A third warpgroup copies, with few registers, two multiply: no barrier is that of the whole block.
#include "ladder/bf16_gemm/group.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Bf16Gemm& op, Ctx& ctx) {
  if (!run_specialized<GemmTile<128>, 0>(op, ctx, false)) bf16_gemm_2_stages::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
