// The k largest elements of each row, largest first, with their indices. Equal values: lower index
// first. NaN is smaller than everything.
#pragma once

#include "ops/ctx.h"

namespace ingot {

struct TopK {
  Tensor x;       // [L, V]
  Tensor values;  // [L, k]
  Tensor ids;     // [L, k] i32; k = ids.cols <= V

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(values);
    f.out(ids);
  }
  Cost cost(const Shape& s) const { return {s.bytes(x), static_cast<double>(s.count(x))}; }
};

namespace ref {
void run(const TopK& op, Ctx& ctx);
}
namespace cpu {
void run(const TopK& op, Ctx& ctx);
}

}  // namespace ingot
