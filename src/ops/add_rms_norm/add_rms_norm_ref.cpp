#include <cmath>

#include "ops/add_rms_norm/add_rms_norm.h"

namespace ingot::ref {

void run(const AddRmsNorm& op, Ctx& ctx) {
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  for (int64_t r = 0; r < ctx.rows(op.out); ++r) {
    double squares = 0;
    for (int64_t i = 0; i < op.out.cols; ++i) {
      const float sum = op.a.f32(r)[i] + op.b.f32(r)[i];
      op.sum.f32(r)[i] = sum;
      squares += static_cast<double>(sum) * sum;
    }
    const double root = std::sqrt(squares / static_cast<double>(op.out.cols) + op.eps);
    for (int64_t i = 0; i < op.out.cols; ++i)
      op.out.f32(r)[i] = static_cast<float>(op.sum.f32(r)[i] / root * weight[i]);
  }
}

}  // namespace ingot::ref
