// An atomic addition in global memory for each value: 256 addresses for all threads of the device.
#include "ladder/cuda_step.cuh"
#include "ladder/histogram/histogram.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace histogram_parts;

template <bool kBytes>
__global__ void histogram(const Values values, uint32_t* counts) {
  let_next_begin();
  wait_for_inputs();
  each_value<kBytes>(values, [&](uint32_t bin) { atomicAdd(counts + bin, 1u); });
}

}  // namespace

void run(const Histogram& op, Ctx& ctx) { count(op, ctx, histogram<false>, histogram<true>, 256, 8, 0); }

}  // namespace ingot::cuda::INGOT_STEP
