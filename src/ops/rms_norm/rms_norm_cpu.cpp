#include "cpu/rms_norm_row.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const RmsNorm& op, Ctx& ctx) {
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  split_rows(ctx, ctx.rows(op.x), 2 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      for (int64_t c = 0; c < op.x.cols; c += op.width)
        rms_norm_row(op.x.f32(r) + c, weight, op.out.f32(r) + c, op.width, op.eps);
  });
}

}  // namespace ingot::cpu
