#include <cmath>

#include "ops/position_scale/position_scale.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const PositionScale& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int periods = (ctx.batch.position[static_cast<size_t>(t)] + op.offset) / op.period;
      const float factor = 1 + op.beta * std::log1p(static_cast<float>(periods));
      float* x = op.x.f32(t);
      for (int64_t c = 0; c < op.x.cols; ++c) x[c] *= factor;
    }
  });
}

}  // namespace ingot::cpu
