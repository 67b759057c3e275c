// Counts for each warp: warps no longer meet at an address, the lanes of one still do.
#include "ladder/cuda_step.cuh"
#include "ladder/histogram/histogram.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace histogram_parts;

constexpr int kWarps = 8;

template <bool kBytes>
__global__ void __launch_bounds__(256) histogram(const Values values, uint32_t* counts) {
  let_next_begin();
  wait_for_inputs();
  __shared__ uint32_t own[kWarps * kBins];
  for (int w = 0; w < kWarps; ++w) own[w * kBins + threadIdx.x] = 0;
  __syncthreads();
  uint32_t* mine = own + threadIdx.x / 32 * kBins;
  each_value<kBytes>(values, [&](uint32_t bin) { atomicAdd(mine + bin, 1u); });
  __syncthreads();
  uint32_t sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += own[w * kBins + threadIdx.x];
  atomicAdd(counts + threadIdx.x, sum);
}

}  // namespace

void run(const Histogram& op, Ctx& ctx) { count(op, ctx, histogram<false>, histogram<true>, 256, 8, 0); }

}  // namespace ingot::cuda::INGOT_STEP
