#include <vector>

#include "ops/head_linear/head_linear.h"

namespace ingot::ref {

void run(const HeadLinear& op, Ctx& ctx) {
  const int64_t k = op.weight.cols, n = op.outputs();
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t h = 0; h < op.heads; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      op.weight.decode_row(h * n + i, row.data());
      for (int64_t t = 0; t < ctx.rows(op.out); ++t) {
        const float* x = op.x.f32(t) + h * (k + op.tail);
        double sum = 0;
        for (int64_t c = 0; c < k; ++c) sum += static_cast<double>(x[c]) * row[static_cast<size_t>(c)];
        op.out.f32(t)[h * (n + op.tail) + i] = static_cast<float>(sum);
      }
    }
    for (int64_t t = 0; t < ctx.rows(op.out); ++t) {
      for (int64_t c = 0; c < op.tail; ++c)
        op.out.f32(t)[h * (n + op.tail) + n + c] = op.x.f32(t)[h * (k + op.tail) + k + c];
    }
  }
}

}  // namespace ingot::ref
