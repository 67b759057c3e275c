// A third warpgroup copies ahead, blocks stay for many tiles, the next scores come beside the values.
#include "ladder/cuda_step.cuh"
#include "ladder/prompt_attention/tiles.cuh"
#include "ops/attention/cuda/attention_cuda_group.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const PromptAttention& op, Ctx& ctx) {
  const int64_t tiles = tiles_of(op, ctx);
  if (tiles == 0) return;
  if (ctx.arch != 90) return attend_by_product(op, ctx);
  AttentionArgs a = paged_args(op);
  a.tickets = ctx.tickets;
  launch_group<GroupShape<DType::kBF16, PagedAttention::kDim>>(ctx, a, tiles);
}

}  // namespace ingot::cuda::INGOT_STEP
