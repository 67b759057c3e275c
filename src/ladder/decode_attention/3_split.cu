// The keys of a seq in splits for several blocks, whose results a second kernel merges: work for few seqs too.
#include "ladder/cuda_step.cuh"
#include "ladder/decode_attention/packed.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const DecodeAttention& op, Ctx& ctx) { attend_by_tiles<1>(op, ctx, splits_of(op, ctx)); }

}  // namespace ingot::cuda::INGOT_STEP
