// out = a · b, all f32, by rows.
#pragma once

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
}  // namespace cpu

namespace ladder {

// What the CPU's packed step wants: its block of b, and six rows of a beside it.
template <>
inline int64_t scratch_bytes<Sgemm>(const Sgemm&) {
  return cpu::kSgemmBlockK * (cpu::kSgemmBlockN + 8) * static_cast<int64_t>(sizeof(float));
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
