#include "ops/add/add.h"

namespace ingot::ref {

void run(const Add& op, Ctx& ctx) {
  for (int64_t r = 0; r < ctx.rows(op.out); ++r)
    for (int64_t c = 0; c < op.out.cols; ++c) op.out.f32(r)[c] = op.a.f32(r)[c] + op.b.f32(r)[c];
}

}  // namespace ingot::ref
