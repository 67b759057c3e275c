#include <cmath>

#include "ops/position_scale/position_scale.h"

namespace ingot::ref {

void run(const PositionScale& op, Ctx& ctx) {
  for (int64_t t = 0; t < ctx.rows(op.x); ++t) {
    const int periods = (ctx.batch.position[static_cast<size_t>(t)] + op.offset) / op.period;
    const double factor = 1 + static_cast<double>(op.beta) * std::log1p(periods);
    for (int64_t c = 0; c < op.x.cols; ++c) op.x.f32(t)[c] = static_cast<float>(op.x.f32(t)[c] * factor);
  }
}

}  // namespace ingot::ref
