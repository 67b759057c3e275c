// The heads that share keys are rows of one matrix: a KV head's keys are read once, by matrix instructions.
#include "ladder/cuda_step.cuh"
#include "ladder/decode_attention/packed.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const DecodeAttention& op, Ctx& ctx) { attend_by_tiles<1>(op, ctx, 1); }

}  // namespace ingot::cuda::INGOT_STEP
