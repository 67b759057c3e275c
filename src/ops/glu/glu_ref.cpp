#include <cmath>
#include <numbers>

#include "ops/glu/glu.h"

namespace ingot::ref {
namespace {

double apply(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationKind::kGelu:
      return x * 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
    case ActivationKind::kGeluTanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kRelu:
      return std::isnan(x) ? x : std::fmax(x, 0.0);
    case ActivationKind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationKind::kClampedSwiglu:
      break;
  }
  return x;
}

float clamped_swiglu(double gate, double up) {
  const double g = gate > 7 ? 7 : gate, u = up > 7 ? 7 : up < -7 ? -7 : up;
  return static_cast<float>(g / (1 + std::exp(-1.702 * g)) * (u + 1));
}

}  // namespace

void run(const Glu& op, Ctx& ctx) {
  for (int64_t r = 0; r < ctx.rows(op.out); ++r) {
    for (int64_t c = 0; c < op.out.cols; ++c) {
      const float gate = op.gate.f32(r)[op.gate.cols == 1 ? 0 : c], up = op.up.f32(r)[c];
      if (op.kind == ActivationKind::kClampedSwiglu) {
        op.out.f32(r)[c] = clamped_swiglu(gate, up);
        continue;
      }
      // The activation is rounded to float before the product, as an op of its own would.
      const float activated = static_cast<float>(apply(op.kind, gate));
      op.out.f32(r)[c] = activated * up;
    }
  }
}

}  // namespace ingot::ref
