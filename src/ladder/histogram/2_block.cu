// Counts of the block in shared memory, added to the global ones at its end: 256 atomics a block leave the chip's core.
#include "ladder/cuda_step.cuh"
#include "ladder/histogram/histogram.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace histogram_parts;

template <bool kBytes>
__global__ void __launch_bounds__(256) histogram(const Values values, uint32_t* counts) {
  let_next_begin();
  wait_for_inputs();
  __shared__ uint32_t own[kBins];
  own[threadIdx.x] = 0;
  __syncthreads();
  each_value<kBytes>(values, [&](uint32_t bin) { atomicAdd(own + bin, 1u); });
  __syncthreads();
  atomicAdd(counts + threadIdx.x, own[threadIdx.x]);
}

}  // namespace

void run(const Histogram& op, Ctx& ctx) { count(op, ctx, histogram<false>, histogram<true>, 256, 8, 0); }

}  // namespace ingot::cuda::INGOT_STEP
