#include "ops/attention/cuda/attention_cuda_split.cuh"

namespace ingot::cuda {

void attend_split_bf16(const Ctx& ctx, const AttentionArgs& args, bool wide, bool bulk) {
  launch_split<DType::kBF16>(ctx, args, wide, bulk);
}

}  // namespace ingot::cuda
