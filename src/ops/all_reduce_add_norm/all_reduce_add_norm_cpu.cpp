#include "base/check.h"
#include "comm/comm.h"
#include "cpu/rms_norm_row.h"
#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"
#include "ops/row_loop.h"

namespace ingot::cpu {

void run(const AllReduceAddNorm& op, Ctx& ctx) {
  CHECK(op.comm != nullptr && op.x.stride == op.x.cols, "rows with gaps");
  const int64_t rows = ctx.rows(op.out), n = op.out.cols;
  op.comm->all_reduce(std::span(op.x.f32(0), static_cast<size_t>(rows * n)));
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  split_rows(ctx, rows, 3 * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* x = op.x.f32(r);
      const float* residual = op.residual.f32(r);
      float* sum = op.sum.f32(r);
      for (int64_t i = 0; i < n; ++i) sum[i] = residual[i] + x[i];
      rms_norm_row(sum, weight, op.out.f32(r), n, op.eps);
    }
  });
}

}  // namespace ingot::cpu
