// The definition, one value after the other: each addition waits for the one before.
#include <cmath>

#include "ladder/cpu_step.h"
#include "ladder/layer_norm/layer_norm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

void layer_norm_row(const float* x, const float* weight, const float* bias, float* out, int64_t n, float eps) {
  float sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const float mean = sum / static_cast<float>(n);
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const float root = std::sqrt(squares / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) / root * weight[i] + (bias != nullptr ? bias[i] : 0.0f);
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
