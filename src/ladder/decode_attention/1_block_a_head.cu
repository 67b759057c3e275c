// A block for each seq and head, key by key: heads that share keys read them once each.
#include "ladder/cuda_step.cuh"
#include "ladder/decode_attention/decode_attention.h"
#include "ladder/paged_attention.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const DecodeAttention& op, Ctx& ctx) { attend_by_rows(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
