// Digits of four bits: 8 passes in place of 32, and four votes a key.
#include "ladder/cuda_step.cuh"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sort& op, Ctx& ctx) { sort_parts::sort<4, sort_parts::ByVotes<4>>(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
