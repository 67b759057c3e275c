// out = exp(x - max(x)) / sum, over each row.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct Softmax {
  Tensor x;    // [L, V]
  Tensor out;  // [L, V] may alias x

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
    f.alias(out, x);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(x), 5.0 * static_cast<double>(s.count(x))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const Softmax& op, Ctx& ctx);
}
namespace cpu {
void run(const Softmax& op, Ctx& ctx);
}

}  // namespace ingot
