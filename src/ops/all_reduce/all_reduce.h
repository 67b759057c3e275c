// The sum over ranks of what each has: out = x of rank 0 + x of rank 1 + …, in float32 and in this order, so that all
// ranks have the same bits. All ranks run it at the same point of the same step. Throws CommError where another rank
// does not come.
#pragma once

#include "ops/ctx.h"

namespace ingot {

class Comm;

struct AllReduce {
  Tensor x;              // [T, D] this rank's, without gaps between rows
  Tensor out;            // [T, D] likewise; may alias x
  Comm* comm = nullptr;  // set in a program

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
    f.alias(out, x);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(out), static_cast<double>(s.count(out))}; }
  bool by_row() const { return true; }
  int regions() const { return 0; }
};

namespace ref {
void run(const AllReduce& op, Ctx& ctx);
}
namespace cpu {
void run(const AllReduce& op, Ctx& ctx);
}

}  // namespace ingot
