// The two warpgroups of a block take turns: one weighs its scores while the other's products run.
#include "ladder/cuda_step.cuh"
#include "ladder/prompt_attention/group.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const PromptAttention& op, Ctx& ctx) { attend_by_groups<true>(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
