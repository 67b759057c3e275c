#include "ops/attention/cuda/attention_cuda_group.cuh"

namespace ingot::cuda {

void attend_group_bf16(const Ctx& ctx, const AttentionArgs& args, int64_t tiles) {
  launch_group<DType::kBF16>(ctx, args, tiles);
}

}  // namespace ingot::cuda
