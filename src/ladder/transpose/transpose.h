// out[c][r] = x[r][c].
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Transpose {
  Tensor x;    // [M, N] f32
  Tensor out;  // [N, M] f32

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(x), 0}; }
};

namespace ref {
void run(const Transpose& op, Ctx& ctx);
}

namespace ladder {

template <>
inline std::vector<LadderCase<Transpose>> ladder_cases<Transpose>(Target target) {
  const int64_t n = target == Target::kCuda ? 16384 : target == Target::kCpu ? 4096 : 40;
  return {{.size = {n, n}, .limit = Limit::kCopy, .make = [n](Operands& o) {
             return Transpose{.x = o.tensor(n, n), .out = o.tensor(n, n)};
           }}};
}

}  // namespace ladder
}  // namespace ingot
