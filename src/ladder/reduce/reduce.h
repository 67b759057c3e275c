// out = the sum of all of x, in f32. The order of additions is the step's own.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Reduce {
  Tensor x;    // [1, N] f32
  Tensor out;  // [1, 1] f32
  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(out);
  }
  Cost cost(const Shape& s) const { return {.bytes = s.bytes(x), .flops = s.bytes(x) / 4}; }
};

namespace ref {
void run(const Reduce& op, Ctx& ctx);
}

namespace ladder {

// What a block of any step leaves for the last one.
template <>
inline int64_t scratch_bytes(const Reduce&) {
  return 2048 * 4;
}

template <>
inline std::vector<LadderCase<Reduce>> ladder_cases(Target target) {
  std::vector<LadderCase<Reduce>> cases;
  const std::vector<int64_t> sizes =
      target == Target::kEmulated ? std::vector<int64_t>{5000} : std::vector<int64_t>{1 << 28, 1 << 16};
  for (const int64_t n : sizes) {
    cases.push_back({.size = {n}, .limit = Limit::kRead, .make = [n](Operands& o) {
                       return Reduce{.x = o.tensor(1, n), .out = o.tensor(1, 1)};
                     }});
  }
  return cases;
}

}  // namespace ladder
}  // namespace ingot
