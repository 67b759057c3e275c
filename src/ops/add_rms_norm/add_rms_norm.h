// sum = a + b, then out = rms_norm(sum): the residual stream and the norm that follows it in one pass.
// Made by the fusion rule `add_norm`; bit for bit what Add and RmsNorm give.
#pragma once

#include "ops/ctx.h"
#include "quant/weight.h"

namespace ingot {

struct AddRmsNorm {
  Tensor a;       // [T, D]
  Tensor b;       // [T, D]
  Weight weight;  // [D] f32
  Tensor sum;     // [T, D] may alias a or b
  Tensor out;     // [T, D]
  float eps = 0;

  template <class F>
  void each(F&& f) {
    f.in(a);
    f.in(b);
    f.weight(weight);
    f.out(sum);
    f.out(out);
    f.alias(sum, a);
    f.alias(sum, b);
  }
  Cost cost(const Shape& s) const { return {4 * s.bytes(out), 5.0 * static_cast<double>(s.count(out))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const AddRmsNorm& op, Ctx& ctx);
}
namespace cpu {
void run(const AddRmsNorm& op, Ctx& ctx);
}

}  // namespace ingot
