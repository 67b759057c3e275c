// Keys are put in order in shared memory first: those of a digit are written side by side.
#include "ladder/cuda_step.cuh"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sort& op, Ctx& ctx) { sort_parts::sort<8, sort_parts::ByVotes<8>, true>(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
