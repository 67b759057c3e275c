#include "ops/argmax/argmax.h"

namespace ingot::ref {

void run(const Argmax& op, Ctx& ctx) {
  for (int64_t r = 0; r < ctx.rows(op.x); ++r) {
    const float* x = op.x.f32(r);
    int64_t best = 0;
    for (int64_t i = 1; i < op.x.cols; ++i) {
      const bool best_is_nan = x[best] != x[best], is_nan = x[i] != x[i];
      if (!is_nan && (best_is_nan || x[i] > x[best])) best = i;
    }
    *op.out.row<int32_t>(r) = static_cast<int32_t>(best);
  }
}

}  // namespace ingot::ref
