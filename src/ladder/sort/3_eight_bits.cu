// Digits of eight bits: 4 passes, but neighbours now go to 256 places, each write a sector of its own.
#include "ladder/cuda_step.cuh"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sort& op, Ctx& ctx) { sort_parts::sort<8, sort_parts::ByVotes<8>>(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
