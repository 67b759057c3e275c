// Places by expert: place = the indices 0 … N - 1 in order of experts[i], those of one expert in their own order, and
// first[e] = where those of expert e begin; first[count] = N.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Route {
  Tensor experts;  // [1, N] uint32 below `count`, N <= 2^24
  Tensor place;    // [1, N] uint32
  Tensor first;    // [1, count + 1] uint32
  int count = 0;   // of experts, 1 … 256
  template <class F>
  void each(F&& f) {
    f.in(experts);
    f.out(place);
    f.out(first);
  }
  Cost cost(const Shape& s) const { return {.bytes = 2 * s.bytes(experts), .flops = 0}; }
};

namespace ref {
void run(const Route& op, Ctx& ctx);
}

namespace ladder {

// The first step's: keys before and after a sort, and what that takes.
template <>
inline int64_t scratch_bytes(const Route& op) {
  const int64_t n = op.experts.cols;
  return 3 * (n * 4 / 256 + 1) * 256 + (n / 8192 + 2) * 4096 + (n / 1024 + 2) * 1024 + (16 << 10);
}

template <>
inline std::vector<LadderCase<Route>> ladder_cases(Target target) {
  const int64_t n = target == Target::kEmulated ? 3000 : 131072;
  return {{.size = {n, 128}, .dtype = "u32", .limit = Limit::kCopy, .make = [n](Operands& o) {
             return Route{.experts = o.words(n, 128), .place = o.words(n), .first = o.words(129), .count = 128};
           }}};
}

}  // namespace ladder
}  // namespace ingot
