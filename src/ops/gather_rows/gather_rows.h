// out[l] = x[batch.logit_row[l]]: the rows whose logits are wanted.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct GatherRows {
  Tensor x;    // [T, D]
  Tensor out;  // [L, D]

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(out), 0}; }
};

namespace ref {
void run(const GatherRows& op, Ctx& ctx);
}
namespace cpu {
void run(const GatherRows& op, Ctx& ctx);
}

}  // namespace ingot
