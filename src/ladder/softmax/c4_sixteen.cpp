// Sixteen exps step by step, so that four vectors hide each other's latencies: one vector alone waits for its own.
#include "cpu/exp_each.h"
#include "cpu/lane_sums.h"
#include "ladder/cpu_step.h"
#include "ladder/softmax/softmax.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

void softmax_row(const float* x, float* out, int64_t n) {
  const float largest = lane_max(x, n);
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) exp_and_sum(x + i, largest, out + i, lanes);
  for (int k = 0; i < n; ++i, ++k) lanes[k] += out[i] = exp_f32(x[i] - largest);
  const float scale = 1.0f / add_lanes(lanes);
  for (i = 0; i < n; ++i) out[i] *= scale;
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), 8 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) softmax_row(op.x.f32(r), op.out.f32(r), op.x.cols);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
