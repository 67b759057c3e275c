#include <cmath>

#include "ops/softcap/softcap.h"

namespace ingot::ref {

void run(const Softcap& op, Ctx& ctx) {
  const double cap = op.cap;
  for (int64_t r = 0; r < ctx.rows(op.out); ++r)
    for (int64_t c = 0; c < op.out.cols; ++c)
      op.out.f32(r)[c] = static_cast<float>(cap * std::tanh(op.x.f32(r)[c] / cap));
}

}  // namespace ingot::ref
