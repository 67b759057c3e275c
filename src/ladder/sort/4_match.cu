// One instruction finds the lanes of the same digit, in place of eight votes.
#include "ladder/cuda_step.cuh"
#include "ladder/sort/sort.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

struct ByMatch {
  static __device__ unsigned peers(uint32_t digit) { return __match_any_sync(0xffffffffu, digit); }
};

}  // namespace

void run(const Sort& op, Ctx& ctx) { sort_parts::sort<8, ByMatch>(op, ctx); }

}  // namespace ingot::cuda::INGOT_STEP
