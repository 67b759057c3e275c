// out = a · b, all f32, by rows.
#pragma once

#include <algorithm>

#include "ladder/step.h"

namespace ingot {

struct Sgemm {
  Tensor a;    // [M, K]
  Tensor b;    // [K, N]
  Tensor out;  // [M, N]
  template <class F>
  void each(F&& f) {
    f.in(a);
    f.in(b);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    return {.bytes = s.bytes(a) + s.bytes(b) + s.bytes(out), .flops = s.bytes(out) / 2 * static_cast<double>(a.cols)};
  }
};

namespace ref {
void run(const Sgemm& op, Ctx& ctx);
}

namespace cpu {
// The block of b that a thread packs: 128 KiB, half of the L2 cache of a small core.
inline constexpr int64_t kSgemmBlockK = 256, kSgemmBlockN = 128;
// Rows of a that pass it at once: a multiple of 12 and of 6, the rows of a tile.
inline constexpr int64_t kSgemmPass = 96;
// K in whole groups of the product's 16 lanes.
inline int64_t sgemm_lanes(int64_t k) { return (k + 15) / 16 * 16; }
}  // namespace cpu

namespace ladder {

// Of each thread: columns of b, whole, with the sums on their way (five times a pass); shared: all of a, which a tile
// ends at 11 rows more.
template <>
inline int64_t scratch_bytes<Sgemm>(const Sgemm& op) {
  const int64_t depth = cpu::sgemm_lanes(op.a.cols);
  const int64_t each = cpu::kSgemmBlockN * (std::max(depth, cpu::kSgemmBlockK) + 5 * cpu::kSgemmPass + 8);
  return std::max(each, (op.a.rows.b + 11) * depth) * static_cast<int64_t>(sizeof(float));
}

template <>
inline std::vector<LadderCase<Sgemm>> ladder_cases(Target target) {
  const int64_t n = target == Target::kEmulated ? 128 : target == Target::kCpu ? 1024 : 8192;
  return {
      {.size = {n, n, n},
       .multiplies = Multiplier::kF32,
       .unit = target == Target::kCpu ? "GFLOP/s" : "TFLOP/s",
       .make = [n](Operands& o) { return Sgemm{.a = o.tensor(n, n), .b = o.tensor(n, n), .out = o.tensor(n, n)}; }}};
}

}  // namespace ladder
}  // namespace ingot
