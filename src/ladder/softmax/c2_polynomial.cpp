// exp as a polynomial without branches, and 16 sums side by side: loops over lanes that become vectors.
#include "ladder/cpu_step.h"
#include "ladder/softmax/softmax.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

void softmax_row(const float* x, float* out, int64_t n) {
  float largest = x[0];
  for (int64_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  for (int64_t i = 0; i < n; ++i) out[i] = exp_f32(x[i] - largest);
  const float scale = 1.0f / lane_sum(n, [out](int64_t i) { return out[i]; });
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), 8 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) softmax_row(op.x.f32(r), op.out.f32(r), op.x.cols);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
