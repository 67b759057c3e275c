#include "matmul/cpu/kernels.h"
#include "ops/glu/glu.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const Glu& op, Ctx& ctx) {
  const int64_t n = op.out.cols;
  split_rows(ctx, ctx.rows(op.out), 8 * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) kernels().glu(op.kind, op.gate.f32(r), op.up.f32(r), op.out.f32(r), n);
  });
}

}  // namespace ingot::cpu
