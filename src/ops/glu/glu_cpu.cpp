#include "base/check.h"
#include "cpu/cpu_math.h"
#include "matmul/cpu/kernels.h"
#include "ops/glu/glu.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const Glu& op, Ctx& ctx) {
  const int64_t n = op.out.cols;
  if (op.gate.cols == 1 && n > 1) {
    CHECK(op.kind != ActivationKind::kClampedSwiglu, "a clamped GLU of one gate");
    return split_rows(ctx, ctx.rows(op.out), n, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const float gate = activate(op.kind, *op.gate.f32(r));
        const float* up = op.up.f32(r);
        float* out = op.out.f32(r);
        for (int64_t i = 0; i < n; ++i) out[i] = gate * up[i];
      }
    });
  }
  split_rows(ctx, ctx.rows(op.out), 8 * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) kernels().glu(op.kind, op.gate.f32(r), op.up.f32(r), op.out.f32(r), n);
  });
}

}  // namespace ingot::cpu
