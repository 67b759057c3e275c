#include "ops/rope/rope.h"

namespace ingot::ref {
namespace {

void rotate(const Rope& op, const Tensor& x, int64_t first, int64_t width, int64_t t) {
  const int64_t half = op.table.cols / 2;
  const float* cos = op.table.f32(t);
  const float* sin = cos + half;
  for (int64_t head = first; head < x.cols; head += width) {
    for (int64_t i = 0; i < half; ++i) {
      float& a = x.f32(t)[head + (op.interleaved ? 2 * i : i)];
      float& b = x.f32(t)[head + (op.interleaved ? 2 * i + 1 : i + half)];
      const float before = a;
      a = before * cos[i] - b * sin[i];
      b = b * cos[i] + before * sin[i];
    }
  }
}

}  // namespace

void run(const Rope& op, Ctx& ctx) {
  for (int64_t t = 0; t < ctx.rows(op.q); ++t) {
    rotate(op, op.q, op.q_first, op.q_width(), t);
    rotate(op, op.k, 0, op.head_dim, t);
  }
}

}  // namespace ingot::ref
