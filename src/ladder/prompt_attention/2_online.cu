// The largest score and the sum are kept up to date key by key: nothing is stored, all heads in one launch.
#include "ladder/cuda_step.cuh"
#include "ladder/paged_attention.cuh"
#include "ladder/prompt_attention/prompt_attention.h"

namespace ingot::cuda::INGOT_STEP {

void run(const PromptAttention& op, Ctx& ctx) { attend_by_rows(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
