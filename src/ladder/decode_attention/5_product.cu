// What serves: rings by bulk copies for each warp, shares of equal length, the last block of a row merges.
#include "ladder/cuda_step.cuh"
#include "ladder/decode_attention/decode_attention.h"
#include "ladder/paged_attention.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const DecodeAttention& op, Ctx& ctx) {
  if (ctx.rows(op.q) > 0) attend_by_product(op, ctx);
}

}  // namespace ingot::cuda::INGOT_STEP
