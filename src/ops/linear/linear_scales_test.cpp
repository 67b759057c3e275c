// Weights with scales beside their data, as Hugging Face stores 8-bit floats: one for the tensor, for each row or for
// each block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "matmul/cpu/kernels.h"
#include "matmul/cpu/panel_kernels.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::cpu_values;
using test::kEps;
using test::linear;
using test::Random;

// One scale for `rows` × `cols` values.
struct Scales {
  int64_t rows, cols;
};
constexpr int64_t kAll = 1 << 20;
constexpr Scales kTensor{kAll, kAll}, kRows{1, kAll}, kBlocks{128, 128}, kRowBlocks{1, 128}, kNarrow{1, 16};

class ScaledWeight {
 public:
  // value() is asked for each value, scale() for each scale.
  template <class Value, class Scale>
  ScaledWeight(Format format, int64_t rows, int64_t cols, Scales each, Value value, Scale scale) {
    weight_.name = "scaled";
    weight_.format = format;
    weight_.rows = rows;
    weight_.cols = cols;
    weight_.row_bytes = format_row_bytes(format, cols);
    bytes_.resize(static_cast<size_t>(weight_.bytes()));
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t n = 0; n < rows; ++n) {
      for (float& v : row) v = value();
      format_encode(format, row.data(), bytes_.data() + n * weight_.row_bytes, cols);
    }
    weight_.data = bytes_.data();
    weight_.scale_rows = std::min(each.rows, rows);
    weight_.scale_cols = std::min(each.cols, cols);
    weight_.scale_stride = (cols + weight_.scale_cols - 1) / weight_.scale_cols;
    scales_.resize(static_cast<size_t>((rows + weight_.scale_rows - 1) / weight_.scale_rows * weight_.scale_stride));
    for (float& s : scales_) s = scale();
    weight_.scale = scales_.data();
  }
  ScaledWeight(const ScaledWeight&) = delete;
  ScaledWeight& operator=(const ScaledWeight&) = delete;

  const Weight& weight() const { return weight_; }
  // Row n with nothing rounded.
  std::vector<double> row(int64_t n) const {
    std::vector<float> values(static_cast<size_t>(weight_.cols));
    format_decode(weight_.format, weight_.row(n), values.data(), weight_.cols);
    std::vector<double> scaled;
    const float* scale = weight_.scale + n / weight_.scale_rows * weight_.scale_stride;
    for (int64_t k = 0; k < weight_.cols; ++k)
      scaled.push_back(static_cast<double>(values[static_cast<size_t>(k)]) *
                       static_cast<double>(scale[k / weight_.scale_cols]));
    return scaled;
  }

 private:
  Weight weight_;
  std::vector<std::byte> bytes_;
  std::vector<float> scales_;
};

// Every output is within `relative` of the sum of its absolute products.
void expect_sums(const std::vector<float>& got, Buffer& x, const ScaledWeight& w, double relative) {
  const int64_t outputs = w.weight().rows;
  for (int64_t n = 0; n < outputs; ++n) {
    const std::vector<double> row = w.row(n);
    for (int64_t t = 0; t < x.rows(); ++t) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < x.cols(); ++k) {
        const double product = static_cast<double>(x.at(t, k)) * row[static_cast<size_t>(k)];
        want += product;
        size += std::fabs(product);
      }
      ASSERT_NEAR(static_cast<double>(got[static_cast<size_t>(t * outputs + n)]), want, relative * size)
          << "row " << t << ", output " << n;
    }
  }
}

struct Shape {
  int64_t outputs, cols;
};
// Panels and blocks that are not full, columns that no group of bf16 divides, and one of each that is full.
constexpr Shape kShapes[] = {{150, 300}, {37, 301}, {130, 160}, {16, 128}, {5, 7}, {33, 1184}};

// Small integers and powers of two: every sum is exact, so each scale must be where it belongs, in every set.
TEST(LinearScales, ExactWhereNothingIsRounded) {
  Random random(41);
  for (const Format format : {Format::kF8_E4M3, Format::kF8_E5M2, Format::kBF16}) {
    for (const Scales& each : {kTensor, kRows, kBlocks, kRowBlocks, kNarrow}) {
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(std::string(format_name(format)) + ", scales of " + std::to_string(each.rows) + " x " +
                     std::to_string(each.cols) + ", K " + std::to_string(shape.cols));
        const auto value = [&] { return static_cast<float>(random.below(9) - 4); };
        const auto scale = [&] { return std::ldexp(1.0f, static_cast<int>(random.below(5)) - 2); };
        const ScaledWeight w(format, shape.outputs, shape.cols, each, value, scale);
        for (int64_t rows : {1, 3, 7, 34}) {
          Buffer x(rows, shape.cols, kTokenRows, shape.cols + 3), out(rows, shape.outputs);
          x.fill([&] { return static_cast<float>(random.below(7) - 3); });
          test::for_each_kernels([&] { expect_sums(cpu_values(linear(x, w.weight(), out), out, 2), x, w, 0); });
        }
      }
    }
  }
}

// Groups of NVFP4 have scales of their own: the tensor's, small as files have it, is beside them. x has 8 bits.
TEST(LinearScales, OfAllGroups) {
  Random random(45);
  const auto value = [&] { return random.normal(); };
  for (const Shape& shape : {Shape{16, 64}, Shape{150, 320}, Shape{37, 1984}}) {
    SCOPED_TRACE("K " + std::to_string(shape.cols));
    const ScaledWeight w(Format::kNVFP4, shape.outputs, shape.cols, kTensor, value, [] { return 1.7e-4f; });
    for (int64_t rows : {1, 3, 7, 34}) {
      Buffer x(rows, shape.cols, kTokenRows, shape.cols + 3), out(rows, shape.outputs);
      x.fill([&] { return random.normal(); });
      test::for_each_kernels([&] { expect_sums(cpu_values(linear(x, w.weight(), out), out, 2), x, w, 0x1p-6); });
    }
    // Whole x of one size is exact in 8 bits.
    Buffer x(5, shape.cols), out(5, shape.outputs);
    x.fill([&] { return random.below(2) == 0 ? -127.0f : 127.0f; });
    test::for_each_kernels([&] {
      expect_sums(cpu_values(linear(x, w.weight(), out), out, 2), x, w, 2 * static_cast<double>(shape.cols) * kEps);
    });
  }
}

// Scales from 1e-10 to 1e10 side by side.
TEST(LinearScales, OfAnySize) {
  Random random(42);
  for (const Format format : {Format::kF8_E4M3, Format::kF8_E5M2}) {
    for (const Scales& each : {kTensor, kRows, kBlocks, kRowBlocks}) {
      SCOPED_TRACE(std::string(format_name(format)) + ", scales of " + std::to_string(each.rows) + " x " +
                   std::to_string(each.cols));
      const auto value = [&] { return random.normal(); };
      const auto scale = [&] { return static_cast<float>(std::pow(10.0, 20 * random.uniform() - 10)); };
      const ScaledWeight w(format, 150, 416, each, value, scale);
      for (int64_t rows : {1, 9}) {
        Buffer x(rows, 416), out(rows, 150);
        x.fill_outliers(random);
        test::for_each_kernels([&] {
          const bool rounded = cpu::kernels().panels->to_bf16 != nullptr;
          expect_sums(cpu_values(linear(x, w.weight(), out), out), x, w, 2 * 424 * kEps + (rounded ? 0x1p-8 : 0));
        });
      }
    }
  }
}

// A row's values do not depend on the rows beside it nor on the threads.
TEST(LinearScales, RowsAloneAreRowsTogether) {
  Random random(43);
  constexpr int64_t kTogether = 64;
  for (const Scales& each : {kTensor, kRows, kBlocks, kRowBlocks}) {
    for (const Shape& shape : {Shape{101, 300}, Shape{75, 1280}}) {
      SCOPED_TRACE("scales of " + std::to_string(each.rows) + " x " + std::to_string(each.cols));
      const auto value = [&] { return random.normal(); };
      const auto scale = [&] { return 0.5f + static_cast<float>(random.uniform()); };
      const ScaledWeight w(Format::kF8_E4M3, shape.outputs, shape.cols, each, value, scale);
      Buffer x(kTogether, shape.cols), out(kTogether, shape.outputs);
      x.fill_outliers(random);
      test::for_each_kernels([&] {
        const std::vector<float> together = cpu_values(linear(x, w.weight(), out), out, 3);
        for (int64_t first = 0, n = 0; first < kTogether; first += n) {
          n = std::min<int64_t>(kTogether - first, 1 + first % 8);
          Buffer some_x(n, shape.cols), some_out(n, shape.outputs);
          for (int64_t t = 0; t < n; ++t)
            for (int64_t c = 0; c < shape.cols; ++c) some_x.at(t, c) = x.at(first + t, c);
          test::expect_same_bits(
              cpu_values(linear(some_x, w.weight(), some_out), some_out),
              {together.begin() + first * shape.outputs, together.begin() + (first + n) * shape.outputs}, "rows");
        }
      });
    }
  }
}

// Beside a gate of integers, with a bias: what two linears and a glu give.
TEST(LinearScales, GluOfTwoFormats) {
  Random random(44);
  constexpr int64_t kOutputs = 83, kCols = 384;
  const auto value = [&] { return 0.05f * random.normal(); };
  const auto scale = [&] { return 0.5f + static_cast<float>(random.uniform()); };
  const ScaledWeight up(Format::kF8_E4M3, kOutputs, kCols, kBlocks, value, scale);
  const test::TestWeight gate(random, Format::kQ4_0, kOutputs, kCols, 0.05f), bias(random, Format::kF32, 1, kOutputs);
  for (int64_t rows : {1, 40}) {
    Buffer x(rows, kCols), g(rows, kOutputs), u(rows, kOutputs), out(rows, kOutputs), unfused(rows, kOutputs);
    x.fill_outliers(random);
    Linear up_op = linear(x, up.weight(), u), gate_op = up_op, op = up_op;
    up_op.parts[0].bias = bias.weight();
    gate_op.parts[0].weight = gate.weight();
    gate_op.parts[0].out = g.tensor();
    op.n_parts = 2;
    op.glu = ActivationKind::kSilu;
    op.parts[0].weight = gate.weight();
    op.parts[0].out = out.tensor();
    op.parts[1].weight = up.weight();
    op.parts[1].bias = bias.weight();
    test::for_each_kernels([&] {
      cpu_values(gate_op, g);
      cpu_values(up_op, u);
      test::run_cpu(Glu{.gate = g.tensor(), .up = u.tensor(), .out = unfused.tensor(), .kind = op.glu},
                    test::rows_batch(static_cast<int>(rows)));
      for (int threads : {1, 3}) test::expect_same_bits(cpu_values(op, out, threads), unfused.values(), "fused");
    });
  }
}

}  // namespace
}  // namespace ingot
