#include "ops/attention/cuda/attention_cuda_rows.cuh"

namespace ingot::cuda {

void attend_rows_f16(const Ctx& ctx, const AttentionArgs& args, int64_t tiles) {
  launch_rows<DType::kF16>(ctx, args, tiles);
}

}  // namespace ingot::cuda
