// out = cap · tanh(x / cap), element by element.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct Softcap {
  Tensor x;    // [T, D]
  Tensor out;  // [T, D] may alias x
  float cap = 1;

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
    f.alias(out, x);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(x), 8.0 * static_cast<double>(s.count(x))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const Softcap& op, Ctx& ctx);
}
namespace cpu {
void run(const Softcap& op, Ctx& ctx);
}

}  // namespace ingot
