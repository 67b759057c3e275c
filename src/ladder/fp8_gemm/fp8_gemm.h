// out = a · bᵀ of 8-bit floats (e4m3), summed in f32: the product of a layer's rows and its weights where both have
// scales, a for each 128 columns of a row of `a`, b for each 128 x 128 block.
#pragma once

#include "ladder/step.h"

namespace ingot {

struct Fp8Gemm {
  Tensor a;        // [M, K] e4m3, K a multiple of 128, rows one after another
  Tensor a_scale;  // [K / 128, M] f32
  Tensor b;        // [N, K] e4m3, as a
  Tensor b_scale;  // [N / 128 rounded up, K / 128] f32
  Tensor out;      // [M, N] bf16, N even
  template <class F>
  void each(F&& f) {
    f.in(a);
    f.in(a_scale);
    f.in(b);
    f.in(b_scale);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    return {.bytes = s.bytes(a) + s.bytes(a_scale) + s.bytes(b) + s.bytes(b_scale) + s.bytes(out),
            .flops = s.bytes(out) * static_cast<double>(a.cols)};
  }
};

namespace ref {
void run(const Fp8Gemm& op, Ctx& ctx);
}

namespace ladder {

inline constexpr int64_t kFp8Block = 128;  // columns, and rows of b, that share a scale

template <>
inline std::vector<LadderCase<Fp8Gemm>> ladder_cases(Target target) {
  const int64_t n = target == Target::kEmulated ? 128 : 8192, blocks = n / kFp8Block;
  return {{.size = {n, n, n},
           .dtype = "fp8",
           .multiplies = Multiplier::kFp8,
           .unit = "TFLOP/s",
           .make = [n, blocks](Operands& o) {
             const auto codes = [&] { return o.tensor(n, n, DType::kFp8); };
             return Fp8Gemm{.a = codes(),
                            .a_scale = o.tensor(blocks, n),
                            .b = codes(),
                            .b_scale = o.tensor(blocks, blocks),
                            .out = o.tensor(n, n, DType::kBF16)};
           }}};
}

// Sums that blocks hand to each other: a tile of 256 x 128 for each of an H200's 132 multiprocessors.
template <>
inline int64_t scratch_bytes<Fp8Gemm>(const Fp8Gemm&) {
  return int64_t{132} * 256 * 128 * 4;
}

}  // namespace ladder
}  // namespace ingot
