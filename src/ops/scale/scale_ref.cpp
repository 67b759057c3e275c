#include "ops/scale/scale.h"

namespace ingot::ref {

void run(const Scale& op, Ctx& ctx) {
  for (int64_t r = 0; r < ctx.rows(op.out); ++r)
    for (int64_t c = 0; c < op.out.cols; ++c) op.out.f32(r)[c] = op.x.f32(r)[c] * op.factor;
}

}  // namespace ingot::ref
