#include "cpu/rms_norm_row.h"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const AddRmsNorm& op, Ctx& ctx) {
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  const int64_t n = op.out.cols;
  split_rows(ctx, ctx.rows(op.out), 3 * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* a = op.a.f32(r);
      const float* b = op.b.f32(r);
      float* sum = op.sum.f32(r);
      for (int64_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
      rms_norm_row(sum, weight, op.out.f32(r), n, op.eps);
    }
  });
}

}  // namespace ingot::cpu
