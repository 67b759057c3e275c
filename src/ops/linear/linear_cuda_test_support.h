// What the tests of Linear on the device share: how exact a product must be, and the plainest op.
#pragma once

#include "ops/cuda/cuda_test_support.h"

namespace ingot::test {

// bf16 keeps 8 significant bits: a rounding is off by at most 2^-8 of the value.
inline constexpr double kBf16 = 0x1p-8;

// How far a product may be from the exact one: roundings of x and of f32 sums, relative to the sum of the absolute
// products. `x` are the rows that the weights meet, as the reference has them.
class ProductError {
 public:
  ProductError(Buffer& x, const TestWeight& w, bool bf16) : cols_(w.weight().rows) {
    const double each = (bf16 ? 1.01 * kBf16 : 0) + 2 * static_cast<double>(x.cols() + 8) * kEps;
    for (int64_t t = 0; t < x.rows(); ++t) {
      for (int64_t n = 0; n < cols_; ++n) {
        const std::vector<float> row = w.row(n);
        double sum = 0;
        for (int64_t k = 0; k < x.cols(); ++k)
          sum += std::fabs(static_cast<double>(x.at(t, k)) * static_cast<double>(row[static_cast<size_t>(k)]));
        errors_.push_back(each * sum);
      }
    }
  }
  double at(int64_t t, int64_t n) const { return errors_[static_cast<size_t>(t * cols_ + n)]; }
  // `roundings` of the result to bf16 beside it.
  Tolerance tolerance(int roundings = 0) const {
    return [this, roundings](int64_t t, int64_t n, double want) {
      return at(t, n) + (4 * kEps + roundings * 1.01 * kBf16) * std::fabs(want);
    };
  }

 private:
  int64_t cols_;
  std::vector<double> errors_;
};

// The rows of a buffer rounded to bf16, in a buffer of that type.
inline void round_to_bf16(Buffer& from, Buffer& to) {
  const Tensor t = to.tensor();
  for (int64_t r = 0; r < from.rows(); ++r) {
    for (int64_t c = 0; c < from.cols(); ++c) {
      const uint16_t bits = f32_to_bf16(from.at(r, c));
      from.at(r, c) = bf16_to_f32(bits);
      t.row<uint16_t>(r)[c] = bits;
    }
  }
}
inline std::vector<float> bf16_values(Buffer& b) {
  std::vector<float> values;
  const Tensor t = b.tensor();
  for (int64_t r = 0; r < b.rows(); ++r)
    for (int64_t c = 0; c < b.cols(); ++c) values.push_back(bf16_to_f32(t.row<uint16_t>(r)[c]));
  return values;
}

inline Linear plain(Buffer& x, const TestWeight& w, Buffer& out) {
  Linear op;
  op.x = x.tensor();
  op.parts[0].weight = w.weight();
  op.parts[0].out = out.tensor();
  return op;
}

}  // namespace ingot::test
