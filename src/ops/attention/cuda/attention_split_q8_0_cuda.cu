#include "ops/attention/cuda/attention_cuda_split.cuh"

namespace ingot::cuda {

void attend_split_q8_0(const Ctx& ctx, const AttentionArgs& args, bool wide, bool bulk) {
  launch_split<DType::kQ8_0>(ctx, args, wide, bulk);
}

}  // namespace ingot::cuda
