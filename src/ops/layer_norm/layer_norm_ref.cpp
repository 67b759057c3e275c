#include <cmath>

#include "ops/layer_norm/layer_norm.h"

namespace ingot::ref {

void run(const LayerNorm& op, Ctx& ctx) {
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  const float* bias = reinterpret_cast<const float*>(op.bias.data);
  const double n = static_cast<double>(op.x.cols);
  for (int64_t r = 0; r < ctx.rows(op.x); ++r) {
    const float* x = op.x.f32(r);
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < op.x.cols; ++i) mean += x[i] / n;
    for (int64_t i = 0; i < op.x.cols; ++i) variance += (x[i] - mean) * (x[i] - mean) / n;
    for (int64_t i = 0; i < op.x.cols; ++i) {
      const double normal = (x[i] - mean) / std::sqrt(variance + op.eps) * weight[i];
      op.out.f32(r)[i] = static_cast<float>(op.bias ? normal + bias[i] : normal);
    }
  }
}

}  // namespace ingot::ref
