#include "cpu/exp_each.h"
#include "ops/row_loop.h"
#include "ops/softmax/softmax.h"

namespace ingot::cpu {
namespace {

void softmax_row(const float* x, float* out, int64_t n) {
  const float max = lane_max(x, n);
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) exp_and_sum(x + i, max, out + i, lane);
  for (int j = 0; i < n; ++i, ++j) lane[j] += out[i] = exp_f32(x[i] - max);
  const float scale = 1.0f / add_lanes(lane);
  for (i = 0; i < n; ++i) out[i] *= scale;
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), 8 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) softmax_row(op.x.f32(r), op.out.f32(r), op.x.cols);
  });
}

}  // namespace ingot::cpu
