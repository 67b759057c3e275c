#include "cuda/activate.cuh"
#include "ops/activation/activation.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

template <ActivationKind kKind>
struct Activate {
  static constexpr int kInputs = 1;
  __device__ float operator()(float x) const { return activate<kKind>(x); }
};

}  // namespace

void run(const Activation& op, Ctx& ctx) {
  visit_activation(op.kind, [&]<ActivationKind kKind>() { launch_each(ctx, op.out, op.x, Activate<kKind>{}); });
}

}  // namespace ingot::cuda
