// out = f(x), element by element.
#pragma once

#include "ops/ctx.h"
#include "tensor/activation_kind.h"

namespace ingot {

struct Activation {
  Tensor x;    // [T, D]
  Tensor out;  // [T, D] may alias x
  ActivationKind kind = ActivationKind::kGelu;

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
    f.alias(out, x);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(out), 8.0 * static_cast<double>(s.count(out))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const Activation& op, Ctx& ctx);
}
namespace cpu {
void run(const Activation& op, Ctx& ctx);
}

}  // namespace ingot
