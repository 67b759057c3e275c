#include "ops/add/add.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const Add& op, Ctx& ctx) {
  const int64_t n = op.out.cols;
  split_rows(ctx, ctx.rows(op.out), n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* a = op.a.f32(r);
      const float* b = op.b.f32(r);
      float* out = op.out.f32(r);
      for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
    }
  });
}

}  // namespace ingot::cpu
