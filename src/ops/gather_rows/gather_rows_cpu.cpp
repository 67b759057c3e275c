#include <cstring>

#include "base/check.h"
#include "ops/gather_rows/gather_rows.h"

namespace ingot::cpu {

// Not in parallel: it moves a few rows, less than what waking a thread costs.
void run(const GatherRows& op, Ctx& ctx) {
  CHECK(op.x.cols == op.out.cols, "{} columns from {}", op.out.cols, op.x.cols);
  const size_t bytes = static_cast<size_t>(op.out.cols) * sizeof(float);
  for (int64_t l = 0; l < ctx.rows(op.out); ++l)
    std::memcpy(op.out.f32(l), op.x.f32(ctx.batch.logit_row[static_cast<size_t>(l)]), bytes);
}

}  // namespace ingot::cpu
