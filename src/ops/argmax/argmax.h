// The index of each row's largest element; the lowest index where several are equal, and NaN is
// smaller than everything.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct Argmax {
  Tensor x;    // [L, V]
  Tensor out;  // [L, 1] i32

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {s.bytes(x), static_cast<double>(s.count(x))}; }
};

namespace ref {
void run(const Argmax& op, Ctx& ctx);
}
namespace cpu {
void run(const Argmax& op, Ctx& ctx);
}

}  // namespace ingot
