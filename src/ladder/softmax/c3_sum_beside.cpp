// The largest by vector compares, and the sum is taken beside the exps: two readings of the row in the cache fewer.
#include "ladder/cpu_step.h"
#include "ladder/softmax/softmax.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

float largest_of(const float* x, int64_t n) {
  Vec most[kVecs];
  for (Vec& m : most) m = broadcast(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int v = 0; v < kVecs; ++v) {
      const Vec now = load(x + i + v * kVecLanes);
      most[v] = now > most[v] ? now : most[v];
    }
  }
  float largest = -__builtin_inff();
  for (const Vec& m : most)
    for (int e = 0; e < kVecLanes; ++e) largest = m[e] > largest ? m[e] : largest;
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

void softmax_row(const float* x, float* out, int64_t n) {
  const float largest = largest_of(x, n);
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      const float e = exp_f32(x[i + k] - largest);
      out[i + k] = e;
      lanes[k] += e;
    }
  }
  for (int k = 0; i < n; ++i, ++k) lanes[k] += out[i] = exp_f32(x[i] - largest);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  const float scale = 1.0f / lanes[0];
  for (i = 0; i < n; ++i) out[i] *= scale;
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), 8 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) softmax_row(op.x.f32(r), op.out.f32(r), op.x.cols);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
