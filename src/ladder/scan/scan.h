// out[i] = x[0] + … + x[i], in f32. The order of additions is the step's own.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Scan {
  Tensor x;    // [1, N] f32
  Tensor out;  // [1, N] f32
  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {.bytes = 2 * s.bytes(x), .flops = s.bytes(x) / 4}; }
};

namespace ref {
void run(const Scan& op, Ctx& ctx);
}

namespace ladder {

// A word of 8 bytes for each tile of 4,096 values, fewer for groups of them, and counters.
template <>
inline int64_t scratch_bytes(const Scan& op) {
  return (op.x.cols / 4096 + op.x.cols / 262144 + 64) * 8;
}

template <>
inline std::vector<LadderCase<Scan>> ladder_cases(Target target) {
  const int64_t n = target == Target::kEmulated ? 9000 : int64_t{1} << 28;
  return {{.size = {n}, .limit = Limit::kCopy, .make = [n](Operands& o) {
             return Scan{.x = o.tensor(1, n), .out = o.tensor(1, n)};
           }}};
}

}  // namespace ladder
}  // namespace ingot
