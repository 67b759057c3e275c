// counts[b] = how many values of x fall into bin b of 256. A value's bin is (x - low) · scale in f32, rounded down;
// what is outside of [0, 256) or NaN is not counted. Of bytes, the value is the bin.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Histogram {
  Tensor x;       // [1, N] f32; with `bytes` 4 N bytes
  Tensor counts;  // [1, 256] uint32
  bool bytes = false;
  float low = -1, scale = 128;
  template <class F>
  void each(F&& f) {
    f.in(x);
    f.out(counts);
  }
  Cost cost(const Shape& s) const { return {.bytes = s.bytes(x), .flops = 0}; }
};

namespace ref {
void run(const Histogram& op, Ctx& ctx);
}

namespace ladder {

template <>
inline std::vector<LadderCase<Histogram>> ladder_cases(Target target) {
  const int64_t n = target == Target::kEmulated ? 5000 : int64_t{1} << 28;
  const auto random = [n](bool bytes) {
    return [n, bytes](Operands& o) {
      return Histogram{.x = bytes ? o.words(n) : o.tensor(1, n), .counts = o.words(256), .bytes = bytes};
    };
  };
  const auto one_bin = [n](Operands& o) {
    return Histogram{.x = fixed_tensor(o.bytes(4 * n, 0), 1, n), .counts = o.words(256)};
  };
  return {{.size = {n}, .limit = Limit::kRead, .make = random(false)},
          {.size = {n}, .variant = "one bin", .limit = Limit::kRead, .make = one_bin},
          {.size = {4 * n}, .dtype = "u8", .limit = Limit::kRead, .make = random(true)}};
}

}  // namespace ladder
}  // namespace ingot
