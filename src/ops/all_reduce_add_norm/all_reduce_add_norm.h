// sum = residual + the sum over ranks of x, then out = rms_norm(sum): what a product cut by its inputs gives, the
// residual stream and the norm that follows it. Made by the fusion rule `all_reduce_add_norm`; bit for bit what
// AllReduce, Add and RmsNorm give. All ranks run it at the same point of the same step. Throws CommError where another
// rank does not come.
#pragma once

#include "ops/ctx.h"
#include "quant/weight.h"

namespace ingot {

class Comm;

struct AllReduceAddNorm {
  Tensor x;         // [T, D] this rank's, without gaps between rows; lost
  Tensor residual;  // [T, D]
  Weight weight;    // [D] f32
  Tensor sum;       // [T, D] may alias residual
  Tensor out;       // [T, D]
  float eps = 0;
  Comm* comm = nullptr;  // set in a program

  template <class F>
  void each(F&& f) {
    f.inout(x);
    f.in(residual);
    f.weight(weight);
    f.out(sum);
    f.out(out);
    f.alias(sum, residual);
  }
  Cost cost(const Shape& s) const { return {5 * s.bytes(out), 6.0 * static_cast<double>(s.count(out))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const AllReduceAddNorm& op, Ctx& ctx);
}
namespace cpu {
void run(const AllReduceAddNorm& op, Ctx& ctx);
}

}  // namespace ingot
