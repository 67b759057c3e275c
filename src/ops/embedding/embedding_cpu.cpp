#include "base/check.h"
#include "ops/embedding/embedding.h"

namespace ingot::cpu {

void run(const Embedding& op, Ctx& ctx) {
  CHECK(op.out.cols == op.table.cols, "{} columns from a table of {}", op.out.cols, op.table.cols);
  const std::vector<int32_t>& index = op.by == Embedding::By::kToken ? ctx.batch.token : ctx.batch.position;
  ctx.pool.run(ctx.rows(op.out), [&](int64_t t, int) {
    const int64_t row = index[static_cast<size_t>(t)];
    op.table.decode_row(row >= 0 && row < op.table.rows ? row : 0, op.out.f32(t));
  });
}

}  // namespace ingot::cpu
