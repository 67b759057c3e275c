// Two places for keys and values: the next ones are copied while these are multiplied. What serves on Ampere and Ada.
#include "ladder/cuda_step.cuh"
#include "ladder/prompt_attention/tiles.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const PromptAttention& op, Ctx& ctx) {
  const int64_t tiles = tiles_of(op, ctx);
  if (tiles > 0) attend_rows_bf16(ctx, paged_args(op), tiles);
}

}  // namespace ingot::cuda::INGOT_STEP
