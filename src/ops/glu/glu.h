// out = f(gate) · up, element by element: SwiGLU with f = SiLU, GeGLU with f = GELU. A gate of one column is of all
// columns of its row.
#pragma once

#include "ops/ctx.h"
#include "tensor/activation_kind.h"

namespace ingot {

struct Glu {
  Tensor gate;  // [T, D] or [T, 1]
  Tensor up;    // [T, D]
  Tensor out;   // [T, D] may alias gate or up; a gate of one column may not
  ActivationKind kind = ActivationKind::kSilu;

  template <class F>
  void each(F&& f) {
    f.in(gate);
    f.in(up);
    f.out(out);
    if (gate.cols == out.cols) f.alias(out, gate);
    f.alias(out, up);
  }
  Cost cost(const Shape& s) const { return {3 * s.bytes(out), 9.0 * static_cast<double>(s.count(out))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const Glu& op, Ctx& ctx);
}
namespace cpu {
void run(const Glu& op, Ctx& ctx);
}

}  // namespace ingot
