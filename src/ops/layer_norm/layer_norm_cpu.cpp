#include <cmath>

#include "ops/layer_norm/layer_norm.h"
#include "ops/row_loop.h"

namespace ingot::cpu {
namespace {

void layer_norm_row(const float* x, const float* weight, const float* bias, float* out, int64_t n, float eps) {
  const float mean = lane_sum(n, [x](int64_t i) { return x[i]; }) / static_cast<float>(n);
  // Two passes: the mean of the squares less the square of the mean would cancel.
  const float squares = lane_sum(n, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  if (bias) {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i];
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  const float* bias = reinterpret_cast<const float*>(op.bias.data);
  split_rows(ctx, ctx.rows(op.x), 3 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) layer_norm_row(op.x.f32(r), weight, bias, op.out.f32(r), op.x.cols, op.eps);
  });
}

}  // namespace ingot::cpu
