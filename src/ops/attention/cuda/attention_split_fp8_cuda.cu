#include "ops/attention/cuda/attention_cuda_split.cuh"

namespace ingot::cuda {

void attend_split_fp8(const Ctx& ctx, const AttentionArgs& args, bool wide, bool bulk) {
  launch_split<DType::kFp8>(ctx, args, wide, bulk);
}

}  // namespace ingot::cuda
