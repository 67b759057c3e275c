// Zeros before ones, 32 times: each pass reads and writes all keys for one bit.
#include "ladder/cuda_step.cuh"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Sort& op, Ctx& ctx) { sort_parts::sort<1, sort_parts::ByVotes<1>>(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
