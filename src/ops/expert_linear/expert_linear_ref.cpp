#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/expert_linear/expert_linear.h"

namespace ingot::ref {
namespace {

// Sixteen sums, so that the compiler may keep them in vectors, then one.
float dot(const float* a, const float* b, int64_t n) {
  float sums[16] = {};
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (int64_t lane = 0; lane < 16; ++lane) sums[lane] += a[k + lane] * b[k + lane];
  double total = 0;
  for (float sum : sums) total += static_cast<double>(sum);
  for (; k < n; ++k) total += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return static_cast<float>(total);
}

double gated(ActivationKind kind, double gate, double up) {
  switch (kind) {
    case ActivationKind::kNone:
      return gate * up;
    case ActivationKind::kSilu:
      return gate / (1 + std::exp(-gate)) * up;
    case ActivationKind::kGelu:
      return gate * 0.5 * std::erfc(-gate / std::sqrt(2.0)) * up;
    case ActivationKind::kGeluTanh:
      return gate * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate))) * up;
    case ActivationKind::kRelu:
      return (gate > 0 ? gate : 0) * up;
    case ActivationKind::kSigmoid:
      return 1 / (1 + std::exp(-gate)) * up;
    case ActivationKind::kClampedSwiglu: {
      const double g = gate > 7 ? 7 : gate, u = up > 7 ? 7 : up < -7 ? -7 : up;
      return g / (1 + std::exp(-1.702 * g)) * (u + 1);
    }
  }
  return gate * up;
}

// Output n of place (t, j). `row` and `weights` are this thread's.
float value_at(const ExpertLinear& op, size_t part, int64_t t, int64_t j, int64_t n, const float* row,
               std::vector<float>& weights) {
  const int32_t e = op.experts.row<int32_t>(t)[j];
  const ExpertLinear::Part& p = op.parts[part];
  const Weight& w = p.weights[static_cast<size_t>(e)];
  weights.resize(static_cast<size_t>(w.cols));
  w.decode_row(n, weights.data());
  float bias = 0;
  if (p.bias) std::memcpy(&bias, p.bias.row(0) + (e * w.rows + n) * 4, sizeof(bias));
  return dot(row, weights.data(), w.cols) + bias;
}

}  // namespace

void run(const ExpertLinear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x), used = op.used(), n_out = op.rows_out(), cols = op.cols_in();
  ctx.pool.run(rows * used, [&](int64_t place, int) {
    const int64_t t = place / used, j = place % used;
    CHECK(op.experts.row<int32_t>(t)[j] >= -1 && op.experts.row<int32_t>(t)[j] < op.count(), "expert of row {}", t);
    if (op.experts.row<int32_t>(t)[j] < 0) return;
    const float* x = op.x.f32(t) + (op.by_place() ? j * cols : 0);
    std::vector<float> row(x, x + cols), weights;
    if (op.scale)
      for (float& v : row) v *= op.weights.f32(t)[j];
    for (int64_t n = 0; n < n_out; ++n) {
      const float first = value_at(op, 0, t, j, n, row.data(), weights);
      const float second = op.is_glu() ? value_at(op, 1, t, j, n, row.data(), weights) : 0;
      op.places.f32(t)[j * n_out + n] = op.is_glu() ? static_cast<float>(gated(op.glu, first, second)) : first;
    }
  });
  if (!op.out) return;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t n = 0; n < n_out; ++n) {
      float sum = 0;
      for (int64_t j = 0; j < used; ++j) {
        if (op.experts.row<int32_t>(t)[j] < 0) continue;
        sum += (op.weights ? op.weights.f32(t)[j] : 1) * op.places.f32(t)[j * n_out + n];
      }
      op.out.f32(t)[n] = sum;
    }
  }
}

}  // namespace ingot::ref
