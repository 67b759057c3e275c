// Multiplies each row in place by 1 + beta · log(1 + floor((position + offset) / period)): queries of models whose
// scores grow sharper with the length of what they look back on.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct PositionScale {
  Tensor x;  // [T, D] in place
  int period = 1;
  int offset = 0;
  float beta = 0;

  template <class F>
  void each(F&& f) {
    f.inout(x);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(x), static_cast<double>(s.count(x))}; }
};

namespace ref {
void run(const PositionScale& op, Ctx& ctx);
}
namespace cpu {
void run(const PositionScale& op, Ctx& ctx);
}

}  // namespace ingot
