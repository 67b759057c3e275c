// out = a + b, element by element.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct Add {
  Tensor a;    // [T, D]
  Tensor b;    // [T, D]
  Tensor out;  // [T, D] may alias a or b

  template <class F>
  void each(F&& f) {
    f.in(a);
    f.in(b);
    f.out(out);
    f.alias(out, a);
    f.alias(out, b);
  }
  Cost cost(const Shape& s) const { return {3 * s.bytes(out), static_cast<double>(s.count(out))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const Add& op, Ctx& ctx);
}
namespace cpu {
void run(const Add& op, Ctx& ctx);
}

}  // namespace ingot
