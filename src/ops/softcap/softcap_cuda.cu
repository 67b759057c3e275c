#include "ops/cuda/elements.cuh"
#include "ops/cuda/ops.h"
#include "ops/softcap/softcap.h"

namespace ingot::cuda {
namespace {

struct Cap {
  static constexpr int kInputs = 1;
  float cap;
  __device__ float operator()(float x) const { return cap * tanhf(x / cap); }
};

}  // namespace

void run(const Softcap& op, Ctx& ctx) { launch_each(ctx, op.out, op.x, Cap{op.cap}); }

}  // namespace ingot::cuda
