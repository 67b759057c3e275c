#include <cmath>

#include "ops/rms_norm/rms_norm.h"

namespace ingot::ref {

void run(const RmsNorm& op, Ctx& ctx) {
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  for (int64_t r = 0; r < ctx.rows(op.x); ++r) {
    for (int64_t begin = 0; begin < op.x.cols; begin += op.width) {
      const float* x = op.x.f32(r) + begin;
      float* out = op.out.f32(r) + begin;
      double squares = 0;
      for (int64_t i = 0; i < op.width; ++i) squares += static_cast<double>(x[i]) * x[i];
      const double root = std::sqrt(squares / static_cast<double>(op.width) + op.eps);
      for (int64_t i = 0; i < op.width; ++i) out[i] = static_cast<float>(x[i] / root * weight[i]);
    }
  }
}

}  // namespace ingot::ref
