// out = keys in ascending order.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Sort {
  Tensor keys;  // [1, N] uint32, N < 2^30
  Tensor out;   // [1, N] uint32
  template <class F>
  void each(F&& f) {
    f.in(keys);
    f.out(out);
  }
  // By digits of 8 bits: one reading that counts, then four readings and writings.
  Cost cost(const Shape& s) const { return {.bytes = 9 * s.bytes(keys), .flops = 0}; }
};

namespace ref {
void run(const Sort& op, Ctx& ctx);
}

namespace ladder {

// Keys half-way, and 256 counts for each tile of 8,192 keys and each of four passes, and a few more.
template <>
inline int64_t scratch_bytes(const Sort& op) {
  const int64_t n = op.keys.cols;
  return (n * 4 / 256 + 1) * 256 + (n / 8192 + 2) * 4096 + (16 << 10);
}

template <>
inline std::vector<LadderCase<Sort>> ladder_cases(Target target) {
  const int64_t n = target == Target::kEmulated ? 9000 : int64_t{1} << 27;
  return {{.size = {n},
           .dtype = "u32",
           .limit = Limit::kCopy,
           .unit = "Gkey/s",
           .items = static_cast<double>(n),
           .make = [n](Operands& o) { return Sort{.keys = o.words(n), .out = o.words(n)}; }}};
}

}  // namespace ladder
}  // namespace ingot
