#include "ops/attention/cuda/latent/attention_cuda_latent.cuh"

namespace ingot::cuda {

void attend_latent_f16(const Ctx& ctx, const AttentionArgs& args, bool wide) {
  launch_latent<DType::kF16>(ctx, args, wide);
}

}  // namespace ingot::cuda
