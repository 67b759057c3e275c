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
  int regions() const { return 0; }
  // What is gathered is no more exact than what it is gathered for.
  template <class F>
  void each_bf16(F&& f) const {
    f.may(out);
    f.may_with(x, out);
  }
};

namespace ref {
void run(const GatherRows& op, Ctx& ctx);
}
namespace cpu {
void run(const GatherRows& op, Ctx& ctx);
}

}  // namespace ingot
