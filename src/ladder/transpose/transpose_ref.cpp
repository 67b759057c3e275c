#include "ladder/transpose/transpose.h"

namespace ingot::ref {

void run(const Transpose& op, Ctx& ctx) {
  for (int64_t r = 0; r < ctx.rows(op.x); ++r)
    for (int64_t c = 0; c < op.x.cols; ++c) op.out.f32(c)[r] = op.x.f32(r)[c];
}

}  // namespace ingot::ref
