// Weights of f16: some sets round x to f16 with a power of two for each row, others read it as float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "matmul/cpu/kernels.h"
#include "matmul/cpu/panel_kernels.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_test_support.h"
#include "tensor/dtype.h"

namespace ingot {
namespace {

using test::Buffer;
using test::kEps;
using test::Random;
using test::TestWeight;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kOutputs = 37;  // three panels, the last short

// Of the first `rows` rows of x.
std::vector<float> values_of(Buffer& x, const TestWeight& w, int64_t rows, int threads) {
  Buffer out(rows, w.weight().rows);
  return test::cpu_values(test::linear(x, w.weight(), out), out, threads);
}

// Row t of x as the chosen set multiplies it, and what its sums are multiplied with.
std::pair<std::vector<float>, float> row_of(Buffer& x, int64_t t) {
  std::vector<float> row(&x.at(t, 0), &x.at(t, 0) + x.cols());
  const auto to_f16 = cpu::kernels().panels->to_f16;
  if (to_f16 == nullptr) return {row, 1.0f};
  std::vector<uint16_t> halves(row.size());
  const float scale = to_f16(row.data(), x.cols(), halves.data());
  std::transform(halves.begin(), halves.end(), row.begin(), f16_to_f32);
  return {row, scale};
}

// Every output is one chain of fused multiply-adds, k ascending, at every number of rows and threads.
TEST(LinearF16, OneChain) {
  Random random(41);
  for (const int64_t cols : {1, 7, 8, 9, 515, 1024, 1031, 2053}) {
    const TestWeight w(random, Format::kF16, kOutputs, cols, 0.1f);
    Buffer x(61, cols);
    for (int64_t t = 0; t < x.rows(); ++t)
      for (int64_t k = 0; k < cols; ++k) x.at(t, k) = std::ldexp(random.outlier(), static_cast<int>(t % 5) * 9 - 18);
    test::for_each_kernels([&] {
      if (std::string(cpu::kernels().name) == "baseline") return;  // no fused multiply-adds
      std::vector<float> want;
      for (int64_t t = 0; t < x.rows(); ++t) {
        const auto [row, scale] = row_of(x, t);
        for (int64_t n = 0; n < kOutputs; ++n) {
          const std::vector<float> weights = w.row(n);
          float sum = 0;
          for (size_t k = 0; k < row.size(); ++k) sum = std::fma(weights[k], row[k], sum);
          want.push_back(sum * scale);
        }
      }
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 20, 61})
        for (const int threads : {1, 2})
          test::expect_same_bits(values_of(x, w, rows, threads), {want.begin(), want.begin() + rows * kOutputs},
                                 std::to_string(cols) + " columns, " + std::to_string(rows) + " rows");
    });
  }
}

// What f16 itself would not hold.
TEST(LinearF16, AnyMagnitude) {
  Random random(42);
  constexpr int64_t kCols = 523;
  const TestWeight w(random, Format::kF16, kOutputs, kCols, 0.05f);
  Buffer x(8, kCols);
  for (int64_t k = 0; k < kCols; ++k) {
    const float v = random.normal();
    x.at(0, k) = v * 1e30f;
    x.at(1, k) = v * 1e-20f;
    x.at(2, k) = k % 2 == 0 ? v * 1e30f : v * 1e-20f;
    x.at(3, k) = k == 77 ? 70000.0f : v;
    x.at(4, k) = v * 1e-42f;  // subnormal
    x.at(5, k) = 0;
    x.at(6, k) = v * 1e36f;
    x.at(7, k) = k == 522 ? 1e-20f : 0;
  }
  test::for_each_kernels([&] {
    const std::vector<float> got = values_of(x, w, x.rows(), 1);
    for (int64_t t = 0; t < x.rows(); ++t) {
      double largest = 0;
      for (int64_t k = 0; k < kCols; ++k) largest = std::max(largest, std::fabs(double{x.at(t, k)}));
      for (int64_t n = 0; n < kOutputs; ++n) {
        const std::vector<float> weights = w.row(n);
        double want = 0, sum = 0, size = 0;
        for (int64_t k = 0; k < kCols; ++k) {
          const double weight = double{weights[static_cast<size_t>(k)]};
          want += weight * double{x.at(t, k)};
          sum += std::fabs(weight * double{x.at(t, k)});
          size += std::fabs(weight);
        }
        // Half a step of f16, the least of which is 2^-38 of the largest; roundings of sums, the least of which is
        // 2^-150.
        const double error = 0.505 * (0x1p-10 * sum + 0x1p-38 * largest * size) + kCols * (kEps * sum + 0x1p-149);
        ASSERT_NEAR(double{got[static_cast<size_t>(t * kOutputs + n)]}, want, error) << "row " << t << ", output " << n;
      }
    }
  });
}

// What is not finite shows in the outputs of its own row as it does with float32.
TEST(LinearF16, NanAndInfinity) {
  Random random(43);
  constexpr int64_t kCols = 523;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const TestWeight w(random, Format::kF16, kOutputs, kCols);
  for (const int64_t rows : {1, 2, 3, 13}) {
    for (const std::vector<float>& odd : {std::vector{kInf}, {-kInf}, {kNan}, {kInf, kInf}, {kInf, kNan}}) {
      Buffer x(rows, kCols);
      x.fill_outliers(random);
      const int64_t at = random.below(rows);
      for (size_t i = 0; i < odd.size(); ++i) x.at(at, random.below(kCols)) = odd[i];
      test::for_each_kernels([&] {
        const std::vector<float> got = values_of(x, w, rows, 1);
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t n = 0; n < kOutputs; ++n) {
            const std::vector<float> weights = w.row(n);
            double want = 0;
            for (int64_t k = 0; k < kCols; ++k) want += double{weights[static_cast<size_t>(k)]} * double{x.at(t, k)};
            const double value = double{got[static_cast<size_t>(t * kOutputs + n)]};
            ASSERT_EQ(std::isnan(value), std::isnan(want)) << t << " " << n;
            ASSERT_EQ(std::isinf(value), std::isinf(want)) << t << " " << n;
            if (std::isinf(want)) {
              ASSERT_EQ(value, want) << t << " " << n;
            }
          }
      });
    }
  }
}

TEST(LinearF16, LargestOfARowBelow32768) {
  test::for_each_kernels([&] {
    const auto to_f16 = cpu::kernels().panels->to_f16;
    if (to_f16 == nullptr) return;
    for (const float largest : {3e38f, 1e30f, 65504.0f, 32768.0f, 32767.99f, 1.0f, 1e-20f, 0x1p-112f}) {
      for (const int64_t n : {1, 3, 4, 9}) {
        std::vector<float> x(static_cast<size_t>(n), -largest / 3);
        x.back() = -largest;
        if (n > 3) x[1] = kInf;
        std::vector<uint16_t> halves(x.size());
        const float scale = to_f16(x.data(), n, halves.data());
        const float top = -f16_to_f32(halves.back());
        EXPECT_GE(top, 16384.0f) << largest;
        EXPECT_LE(top, 32768.0f) << largest;
        for (size_t i = 0; i < x.size(); ++i) {
          const double value = double{f16_to_f32(halves[i])} * double{scale};
          if (std::isinf(x[i])) {
            EXPECT_EQ(value, double{kInf});
          } else {
            EXPECT_NEAR(value, double{x[i]}, 0x1p-11 * double{std::fabs(x[i])}) << largest;
          }
        }
      }
    }
    // Smaller ones are exact: the least f16 is not above the least float32 then.
    const float least[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-148f, 0x1p-140f, 0x1p-126f};
    uint16_t halves[6];
    const float scale = to_f16(least, 6, halves);
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(f16_to_f32(halves[i]) * scale, least[i]) << i;
  });
}

}  // namespace
}  // namespace ingot
