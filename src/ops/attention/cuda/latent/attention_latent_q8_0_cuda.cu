#include "ops/attention/cuda/latent/attention_cuda_latent.cuh"

namespace ingot::cuda {

void attend_latent_q8_0(const Ctx& ctx, const AttentionArgs& args, bool wide) {
  launch_latent<DType::kQ8_0>(ctx, args, wide);
}

}  // namespace ingot::cuda
