#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "ops/linear/linear.h"

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

double activated(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationKind::kGelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kGeluTanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kRelu:
      return x > 0 ? x : 0;
  }
  return x;
}

// Row n of every part, for all rows of x. `weights` and `sums` are this thread's.
void output_column(const Linear& op, int64_t rows, size_t p, int64_t n, std::vector<float>& weights) {
  const Linear::Part& part = op.parts[p];
  weights.resize(static_cast<size_t>(op.x.cols));
  part.weight.decode_row(n, weights.data());
  float bias = 0;
  if (part.bias) std::memcpy(&bias, part.bias.row(0) + n * 4, sizeof(bias));
  for (int64_t t = 0; t < rows; ++t) {
    const float sum = dot(op.x.f32(t), weights.data(), op.x.cols) + bias;
    float& out = op.parts[op.is_glu() ? 0 : p].out.f32(t)[n];
    if (op.is_glu() && p == 1) {
      out = static_cast<float>(activated(op.glu, static_cast<double>(out)) * static_cast<double>(sum));
    } else if (op.residual) {
      out = op.residual.f32(t)[n] + sum;
    } else {
      out = sum;
    }
  }
}

}  // namespace

void run(const Linear& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  std::vector<std::vector<float>> weights(static_cast<size_t>(ctx.pool.threads()));
  for (size_t p = 0; p < static_cast<size_t>(op.n_parts); ++p) {
    CHECK(op.parts[p].weight.cols == op.x.cols, "weight {}", op.parts[p].weight.name);
    ctx.pool.run(op.parts[p].weight.rows,
                 [&](int64_t n, int thread) { output_column(op, rows, p, n, weights[static_cast<size_t>(thread)]); });
  }
}

}  // namespace ingot::ref
