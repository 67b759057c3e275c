#include "cpu/cpu_math.h"
#include "ops/row_loop.h"
#include "ops/softcap/softcap.h"

namespace ingot::cpu {

void run(const Softcap& op, Ctx& ctx) {
  const int64_t n = op.out.cols;
  const float cap = op.cap;
  split_rows(ctx, ctx.rows(op.out), 8 * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* x = op.x.f32(r);
      float* out = op.out.f32(r);
      for (int64_t i = 0; i < n; ++i) out[i] = cap * tanh_f32(x[i] / cap);
    }
  });
}

}  // namespace ingot::cpu
