// Products of warpgroups, which read queries, keys and values where they lie in shared memory: no loads of fragments.
#include "ladder/cuda_step.cuh"
#include "ladder/prompt_attention/group.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const PromptAttention& op, Ctx& ctx) { attend_by_groups<false>(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
