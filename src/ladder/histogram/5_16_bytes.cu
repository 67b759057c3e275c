// Loads of 16 bytes, four in flight: memory is what it waits for.
#include "ladder/cuda_step.cuh"
#include "ladder/histogram/lanes.cuh"

namespace ingot::cuda::INGOT_STEP {

void run(const Histogram& op, Ctx& ctx) {
  using namespace histogram_parts;
  count(op, ctx, count_by_lanes<false, true>, count_by_lanes<true, true>, kLaneThreads, kLaneBlocks, kLaneShared);
}

}  // namespace ingot::cuda::INGOT_STEP
