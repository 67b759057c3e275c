// Vectors: 16 sums side by side, added in a tree at the end; one division for the row.
#include <cmath>

#include "ladder/cpu_step.h"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

void layer_norm_row(const float* x, const float* weight, const float* bias, float* out, int64_t n, float eps) {
  const float mean = lane_sum(n, [x](int64_t i) { return x[i]; }) / static_cast<float>(n);
  const float squares = lane_sum(n, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  if (bias != nullptr) {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i];
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  const auto* weight = reinterpret_cast<const float*>(op.weight.data);
  const auto* bias = reinterpret_cast<const float*>(op.bias.data);
  split_rows(ctx, ctx.rows(op.x), 3 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) layer_norm_row(op.x.f32(r), weight, bias, op.out.f32(r), op.x.cols, op.eps);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
