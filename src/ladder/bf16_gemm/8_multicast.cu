// Two blocks with the same columns copy half of their part of b each, for both. What serves without cuBLASLt.
#include "ladder/bf16_gemm/cluster.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Bf16Gemm& op, Ctx& ctx) {
  if (!run_clusters<ClusterTile<2, 1>, 8>(op, ctx, Sharing::kStay)) bf16_gemm_2_stages::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
