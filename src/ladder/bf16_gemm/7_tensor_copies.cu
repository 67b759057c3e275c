// One thread brings a stage by two tensor copies, and a product of 64 x 256 reads a once where two read it twice.
#include "ladder/bf16_gemm/cluster.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Bf16Gemm& op, Ctx& ctx) {
  if (!run_clusters<ClusterTile<1, 1>, 8>(op, ctx, Sharing::kStay)) bf16_gemm_2_stages::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
