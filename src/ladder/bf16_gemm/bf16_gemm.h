// out = a · bᵀ in bf16, summed in f32: the product of a layer's rows and its weights.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Bf16Gemm {
  Tensor a;    // [M, K], K a multiple of 8, rows at 16 bytes
  Tensor b;    // [N, K], rows one after another
  Tensor out;  // [M, N], N even
  template <class F>
  void each(F&& f) {
    f.in(a);
    f.in(b);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    return {.bytes = s.bytes(a) + s.bytes(b) + s.bytes(out), .flops = s.bytes(out) * static_cast<double>(a.cols)};
  }
};

namespace ref {
void run(const Bf16Gemm& op, Ctx& ctx);
}

namespace ladder {

template <>
inline std::vector<LadderCase<Bf16Gemm>> ladder_cases(Target target) {
  const int64_t n = target == Target::kEmulated ? 128 : 8192;
  return {{.size = {n, n, n},
           .dtype = "bf16",
           .multiplies = Multiplier::kBf16,
           .unit = "TFLOP/s",
           .make = [n](Operands& o) {
             const auto matrix = [&] { return o.tensor(n, n, DType::kBF16); };
             return Bf16Gemm{.a = matrix(), .b = matrix(), .out = matrix()};
           }}};
}

// Sums that blocks hand to each other: a tile of 128 x 256 for each of an H200's 132 multiprocessors.
template <>
inline int64_t scratch_bytes<Bf16Gemm>(const Bf16Gemm&) {
  return int64_t{132} * 128 * 256 * 4;
}

}  // namespace ladder
}  // namespace ingot
