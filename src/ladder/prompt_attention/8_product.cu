// What serves: one thread asks for 64 rows of keys or values (tensor copies), and long tiles have steps of 128 keys.
#include "ladder/cuda_step.cuh"
#include "ladder/paged_attention.cuh"
#include "ladder/prompt_attention/prompt_attention.h"

namespace ingot::cuda::INGOT_STEP {

void run(const PromptAttention& op, Ctx& ctx) {
  if (ctx.rows(op.q) > 0) attend_by_product(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
