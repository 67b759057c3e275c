// The tiles of the last round, too few for all multiprocessors, are cut along K: 15.5 rounds cost 15.5, not 16.
#include "ladder/bf16_gemm/cluster.cuh"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Bf16Gemm& op, Ctx& ctx) {
  if (!run_clusters<ClusterTile<2, 1>, 8>(op, ctx, Sharing::kSplit)) bf16_gemm_2_stages::run(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
