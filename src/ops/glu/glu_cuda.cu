#include "cuda/activate.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/ops.h"
#include "ops/glu/glu.h"

namespace ingot::cuda {
namespace {

template <ActivationKind kKind>
struct Gate {
  static constexpr int kInputs = 2;
  __device__ float operator()(float gate, float up) const { return activate<kKind>(gate) * up; }
};

}  // namespace

void run(const Glu& op, Ctx& ctx) {
  visit_activation(op.kind, [&]<ActivationKind kKind>() { launch_each(ctx, op.out, op.gate, op.up, Gate<kKind>{}); });
}

}  // namespace ingot::cuda
