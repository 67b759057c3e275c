// A copy of the counts for each lane, in its own bank: no conflicts, and one bin is as quick as many.
#include "ladder/cuda_step.cuh"
#include "ladder/histogram/lanes.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Histogram& op, Ctx& ctx) {
  using namespace histogram_parts;
  count(op, ctx, count_by_lanes<false, false>, count_by_lanes<true, false>, kLaneThreads, kLaneBlocks, kLaneShared);
}

}  // namespace ingot::cuda::INGOT_STEP
