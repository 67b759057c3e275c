// A ring of three tiles: 64 KiB of the next keys and values of a block are on their way while these are multiplied.
#include "ladder/cuda_step.cuh"
#include "ladder/decode_attention/packed.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const DecodeAttention& op, Ctx& ctx) { attend_by_tiles<3>(op, ctx, splits_of(op, ctx)); }

}  // namespace ingot::cuda::INGOT_STEP
