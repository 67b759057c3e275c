// out = (x - mean(x)) / sqrt(var(x) + eps) · weight + bias over each row, accumulated in f32.
#pragma once

#include "ops/ctx.h"
#include "quant/weight.h"

namespace ingot {

struct LayerNorm {
  Tensor x;       // [T, D]
  Weight weight;  // [D] f32
  Weight bias;    // [D] f32, or none
  Tensor out;     // [T, D] may alias x
  float eps = 0;

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.weight(weight);
    if (bias) f.weight(bias);
    f.out(out);
    f.alias(out, x);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(x), 7.0 * static_cast<double>(s.count(x))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const LayerNorm& op, Ctx& ctx);
}
namespace cpu {
void run(const LayerNorm& op, Ctx& ctx);
}

}  // namespace ingot
