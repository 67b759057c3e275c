#include "cpu/cpu_math.h"
#include "ops/activation/activation.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const Activation& op, Ctx& ctx) {
  const int64_t n = op.out.cols;
  with_activation(op.kind, [&](auto function) {
    split_rows(ctx, ctx.rows(op.out), 8 * n, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const float* x = op.x.f32(r);
        float* out = op.out.f32(r);
        for (int64_t i = 0; i < n; ++i) out[i] = function(x[i]);
      }
    });
  });
}

}  // namespace ingot::cpu
