#include <cmath>
#include <numbers>

#include "ops/activation/activation.h"

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

}  // namespace

void run(const Activation& op, Ctx& ctx) {
  for (int64_t r = 0; r < ctx.rows(op.out); ++r)
    for (int64_t c = 0; c < op.out.cols; ++c) op.out.f32(r)[c] = static_cast<float>(apply(op.kind, op.x.f32(r)[c]));
}

}  // namespace ingot::ref
