#include "ops/gather_rows/gather_rows.h"

namespace ingot::ref {

void run(const GatherRows& op, Ctx& ctx) {
  for (int64_t l = 0; l < ctx.rows(op.out); ++l)
    for (int64_t c = 0; c < op.out.cols; ++c)
      op.out.f32(l)[c] = op.x.f32(ctx.batch.logit_row[static_cast<size_t>(l)])[c];
}

}  // namespace ingot::ref
