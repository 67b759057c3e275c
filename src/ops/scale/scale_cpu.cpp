#include "ops/row_loop.h"
#include "ops/scale/scale.h"

namespace ingot::cpu {

void run(const Scale& op, Ctx& ctx) {
  const int64_t n = op.out.cols;
  const float factor = op.factor;
  split_rows(ctx, ctx.rows(op.out), n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* x = op.x.f32(r);
      float* out = op.out.f32(r);
      for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
    }
  });
}

}  // namespace ingot::cpu
