// out = x: from one device's arena to another's, or into memory that outlives the step.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct Copy {
  Tensor x;    // [T, D]
  Tensor out;  // [T, D]

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(x), 0}; }
};

namespace ref {
void run(const Copy& op, Ctx& ctx);
}
namespace cpu {
void run(const Copy& op, Ctx& ctx);
}

}  // namespace ingot
