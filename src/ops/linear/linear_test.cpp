#include "ops/linear/linear.h"

#include <algorithm>

#include "matmul/cpu/panel_kernels.h"
#include "ops/linear/linear_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::cpu_values;
using test::kEps;
using test::linear;
using test::Random;
using test::TestWeight;

// How far two sums over K in f32 of different order may be apart: each is within (K/16 + 8) roundings of
// the exact one, relative to the sum of the absolute products. A format with quantized panels sees x in
// steps of 1/127 of the largest of each 32 or 128.
class SumError {
 public:
  SumError(Buffer& x, const TestWeight& w) : cols_(w.weight().rows), errors_(static_cast<size_t>(x.rows() * cols_)) {
    const PanelKind kind = panels_of(w.weight()).kind;
    const bool quantized = is_quantized(kind);
    const int64_t block = cpu::kernels().panels->coarse(kind) ? kPanelCoarse : kPanelBlock;
    // One step of bf16 or f16 relative to x, where the set rounds it.
    double ulp = 0;
    if (kind == PanelKind::kBF16 && cpu::kernels().panels->to_bf16 != nullptr) ulp = 0x1p-7;
    if (kind == PanelKind::kF16 && cpu::kernels().panels->to_f16 != nullptr) ulp = 0x1p-10;
    const double terms = kind == PanelKind::kNone ? static_cast<double>(x.cols()) / 16 : static_cast<double>(x.cols());
    const double roundings = 2 * (terms + 8) * kEps;
    for (int64_t n = 0; n < cols_; ++n) {
      const std::vector<float> row = w.row(n);
      for (int64_t t = 0; t < x.rows(); ++t) {
        double sum = 0, steps = 0;
        const double least =
            kind == PanelKind::kF16 ? 0x1p-38 * 127 * step(x, t, 0, x.cols()) : 0;  // a subnormal's step
        for (int64_t k = 0; k < x.cols(); ++k) {
          sum += std::fabs(static_cast<double>(x.at(t, k)) * static_cast<double>(row[static_cast<size_t>(k)]));
          if (ulp > 0)
            steps += std::fabs(static_cast<double>(row[static_cast<size_t>(k)])) *
                     (ulp * std::fabs(static_cast<double>(x.at(t, k))) + least);
          if (quantized) steps += std::fabs(static_cast<double>(row[static_cast<size_t>(k)])) * step(x, t, k, block);
        }
        errors_[static_cast<size_t>(t * cols_ + n)] = sum * roundings + 0.505 * steps;
      }
    }
  }
  // One step of the block that x(t, k) is in.
  static double step(Buffer& x, int64_t t, int64_t k, int64_t block) {
    float largest = 0;
    const int64_t begin = k / block * block, end = std::min(x.cols(), begin + block);
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x.at(t, i)));
    return static_cast<double>(largest) / 127;
  }
  double at(int64_t t, int64_t n) const { return errors_[static_cast<size_t>(t * cols_ + n)]; }
  test::Tolerance tolerance() const {
    return [this](int64_t t, int64_t n, double want) { return at(t, n) + 4 * kEps * std::fabs(want); };
  }

 private:
  int64_t cols_;
  std::vector<double> errors_;
};

void check(Random& random, const TestWeight& w, int64_t rows) {
  Buffer x(rows, w.weight().cols, kTokenRows, w.weight().cols + 5),
      out(rows, w.weight().rows, kTokenRows, w.weight().rows + 3);
  x.fill_outliers(random);
  const SumError error(x, w);
  test::expect_cpu_matches_ref(linear(x, w.weight(), out), test::rows_batch(static_cast<int>(rows)), {&out},
                               error.tolerance());
}

TEST(Linear, OddSizes) {
  Random random(1);
  test::for_each_kernels([&] {
    for (int64_t k : {1, 15, 16, 17, 63, 64, 65, 257})
      for (int64_t n : {1, 3, 8, 63, 65}) {
        SCOPED_TRACE(testing::Message() << "K " << k << ", N " << n);
        const TestWeight w(random, Format::kF32, n, k);
        for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 20}) check(random, w, rows);
      }
  });
}

TEST(Linear, ManyRowsPassInGroups) {
  Random random(2);
  test::for_each_kernels([&] {
    for (int64_t rows : {65, 97, 193}) check(random, TestWeight(random, Format::kF32, 129, 64), rows);
    check(random, TestWeight(random, Format::kF32, 41, 9000), 29);
  });
}

TEST(Linear, EveryFormat) {
  Random random(3);
  for (Format format : test::all_formats()) {
    SCOPED_TRACE(format_name(format));
    // Whole rows: groups of 128 of which the last is short.
    const std::vector<int64_t> lengths =
        format_whole_rows(format) ? std::vector<int64_t>{1, 4, 6, 11} : std::vector<int64_t>{1, 3};
    for (int64_t blocks : lengths) {
      const TestWeight w(random, format, 67, std::max<int64_t>(format_block(format), 32) * blocks);
      test::for_each_kernels([&] {
        for (int64_t rows : {1, 3, 21}) check(random, w, rows);
      });
    }
  }
}

// Longer than what a kernel takes of K at once.
TEST(Linear, LongRows) {
  Random random(14);
  for (Format format :
       {Format::kQ4_0, Format::kQ6_K, Format::kBF16, Format::kINT4, Format::kINT4_ASYM, Format::kINT8}) {
    SCOPED_TRACE(format_name(format));
    const TestWeight w(random, format, 24, format_whole_rows(format) ? 2336 : 2304);
    test::for_each_kernels([&] {
      for (int64_t rows : {1, 7}) check(random, w, rows);
    });
  }
  for (Format format : {Format::kF16, Format::kBF16}) {
    SCOPED_TRACE(format_name(format));
    const TestWeight w(random, format, 24, 1031);
    test::for_each_kernels([&] {
      for (int64_t rows : {1, 2, 5, 13}) check(random, w, rows);
    });
  }
}

TEST(Linear, ScalesBesideTheData) {
  Random random(4);
  TestWeight w(random, Format::kF8_E4M3, 150, 300);
  w.add_scales(random, 128, 128);
  test::for_each_kernels([&] {
    for (int64_t rows : {1, 5, 64}) check(random, w, rows);
  });
}

TEST(Linear, VocabularyOf151936) {
  Random random(5);
  const TestWeight w(random, Format::kQ4_1, 151936, 32);
  test::for_each_kernels([&] { check(random, w, 2); });
}

TEST(Linear, F32OfAnyAlignment) {
  Random random(6);
  const TestWeight w(random, Format::kF32, 9, 33);
  std::vector<std::byte> moved(static_cast<size_t>(w.weight().bytes()) + 1);
  std::copy(w.weight().data, w.weight().data + w.weight().bytes(), moved.begin() + 1);
  Buffer x(4, 33), out(4, 9);
  x.fill_outliers(random);
  Linear op = linear(x, w.weight(), out);
  const std::vector<float> want = cpu_values(op, out);
  op.parts[0].weight.data = moved.data() + 1;
  test::expect_same_bits(cpu_values(op, out), want, "one byte further");
}

TEST(Linear, NoRows) {
  Random random(7);
  const TestWeight w(random, Format::kF32, 4, 8);
  Buffer x(0, 8), out(0, 4);
  test::run_cpu(linear(x, w.weight(), out), test::make_batch({}));
  out.expect_intact();
}

// q, k and v of different sizes and formats in one op: what each gives alone.
TEST(Linear, PartsAreSeparateLinears) {
  Random random(10);
  const TestWeight q(random, Format::kQ4_1, 96, 64), k(random, Format::kQ8_0, 33, 64), v(random, Format::kF32, 7, 64);
  const TestWeight bias(random, Format::kF32, 1, 96);
  const int64_t rows = 11;
  Buffer x(rows, 64), all(rows, 96 + 33 + 7);
  x.fill_outliers(random);
  const TestWeight* weights[] = {&q, &k, &v};
  Linear fused;
  fused.x = x.tensor();
  fused.n_parts = 3;
  int64_t at = 0;
  for (size_t p = 0; p < 3; ++p) {
    const Weight& w = weights[p]->weight();
    fused.parts[p].weight = w;
    if (p != 1) fused.parts[p].bias = bias.weight();
    fused.parts[p].out = all.columns(at, w.rows);
    at += w.rows;
  }
  test::for_each_kernels([&] {
    for (int threads : {1, 3}) {
      const std::vector<float> got = cpu_values(fused, all, threads);
      int64_t first = 0;
      for (size_t p = 0; p < 3; ++p) {
        Buffer out(rows, weights[p]->weight().rows);
        Linear one = linear(x, weights[p]->weight(), out);
        one.parts[0].bias = fused.parts[p].bias;
        cpu_values(one, out);
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t n = 0; n < out.cols(); ++n)
            ASSERT_EQ(got[static_cast<size_t>(t * all.cols() + first + n)], out.at(t, n)) << p << " " << t << " " << n;
        first += out.cols();
      }
    }
  });
  all.poison();
  test::run_ref(fused, test::rows_batch(static_cast<int>(rows)), 2);
  all.expect_intact();
  const std::vector<float> want = all.values();
  const SumError errors[] = {SumError(x, q), SumError(x, k), SumError(x, v)};
  const auto tolerance = [&](int64_t t, int64_t n, double value) {
    size_t p = 0;
    for (; n >= weights[p]->weight().rows; ++p) n -= weights[p]->weight().rows;
    return errors[p].at(t, n) + 8 * kEps * std::fabs(value) + kEps;
  };
  test::expect_near(cpu_values(fused, all), want, all.cols(), tolerance, "three parts");
}

TEST(Linear, ResidualIsAdd) {
  Random random(11);
  const TestWeight w(random, Format::kQ4_0, 70, 96), bias(random, Format::kF32, 1, 70);
  const int64_t rows = 9;
  const Batch batch = test::rows_batch(9);
  Buffer x(rows, 96), residual(rows, 70), sum(rows, 70), out(rows, 70);
  x.fill_outliers(random);
  residual.fill_outliers(random);
  Linear op = linear(x, w.weight(), out);
  op.parts[0].bias = bias.weight();
  test::for_each_kernels([&] {
    cpu_values(op, out);
    test::run_cpu(Add{.a = residual.tensor(), .b = out.tensor(), .out = sum.tensor()}, batch);
    Linear fused = op;
    fused.residual = residual.tensor();
    test::expect_same_bits(cpu_values(fused, out, 2), sum.values(), "residual");
    // In the residual's own memory.
    const auto saved = residual.save();
    fused.parts[0].out = residual.tensor();
    test::run_cpu(fused, batch, 3);
    test::expect_same_bits(residual.values(), sum.values(), "in place");
    residual.restore(saved);
  });
  Linear fused = op;
  fused.residual = residual.tensor();
  const SumError error(x, w);
  test::expect_cpu_matches_ref(fused, batch, {&out}, [&](int64_t t, int64_t n, double want) {
    return error.at(t, n) + 4 * kEps * (std::fabs(want) + std::fabs(residual.at(t, n)) + 2);
  });
}

class LinearGlu : public testing::TestWithParam<ActivationKind> {};

TEST_P(LinearGlu, IsGluOfTwoLinears) {
  Random random(12);
  const int64_t rows = 10, n = 83, k = 128;
  const Batch batch = test::rows_batch(static_cast<int>(rows));
  const TestWeight gate(random, Format::kQ5_1, n, k, 0.05f), up(random, Format::kQ8_0, n, k, 0.05f);
  const TestWeight bias(random, Format::kF32, 1, n);
  Buffer x(rows, k), g(rows, n), u(rows, n), out(rows, n), unfused(rows, n);
  x.fill_outliers(random);
  Linear op = linear(x, gate.weight(), out);
  op.n_parts = 2;
  op.glu = GetParam();
  op.parts[1].weight = up.weight();
  op.parts[1].bias = bias.weight();
  Linear gate_op = linear(x, gate.weight(), g), up_op = linear(x, up.weight(), u);
  up_op.parts[0].bias = bias.weight();
  test::for_each_kernels([&] {
    cpu_values(gate_op, g);
    cpu_values(up_op, u);
    test::run_cpu(Glu{.gate = g.tensor(), .up = u.tensor(), .out = unfused.tensor(), .kind = op.glu}, batch);
    for (int threads : {1, 2, 3}) test::expect_same_bits(cpu_values(op, out, threads), unfused.values(), "fused");
  });
  // |f'| <= 1.13 and |f(g)| <= |g| for all of these f.
  const SumError gate_error(x, gate), up_error(x, up);
  test::expect_cpu_matches_ref(op, batch, {&out}, [&](int64_t t, int64_t c, double) {
    const double ge = gate_error.at(t, c), ue = up_error.at(t, c) + 2 * kEps;
    const double ga = std::fabs(static_cast<double>(g.at(t, c))) + ge,
                 ua = std::fabs(static_cast<double>(u.at(t, c))) + ue;
    return 1.2 * ge * ua + ga * ue + 8 * kEps * ga * ua;
  });
}

// Gate and up of different formats, either being the one that takes more memory when it is expanded.
TEST(Linear, GluOfTwoFormats) {
  Random random(17);
  const int64_t rows = 70, n = 160, k = 1024;
  const std::vector<Format> formats = {Format::kQ4_0, Format::kBF16, Format::kF16, Format::kQ4_K,
                                       Format::kQ8_0, Format::kQ2_K, Format::kQ6_K};
  for (const Format first : formats) {
    for (const Format second : formats) {
      SCOPED_TRACE(std::string(format_name(first)) + " and " + std::string(format_name(second)));
      const TestWeight gate(random, first, n, k, 0.05f), up(random, second, n, k, 0.05f);
      Buffer x(rows, k), g(rows, n), u(rows, n), out(rows, n), unfused(rows, n);
      x.fill_outliers(random);
      Linear op = linear(x, gate.weight(), out);
      op.n_parts = 2;
      op.glu = ActivationKind::kSilu;
      op.parts[1].weight = up.weight();
      Linear gate_op = linear(x, gate.weight(), g), up_op = linear(x, up.weight(), u);
      const Batch batch = test::rows_batch(static_cast<int>(rows));
      test::for_each_kernels([&] {
        cpu_values(gate_op, g);
        cpu_values(up_op, u);
        test::run_cpu(Glu{.gate = g.tensor(), .up = u.tensor(), .out = unfused.tensor(), .kind = op.glu}, batch);
        test::expect_same_bits(cpu_values(op, out, 3), unfused.values(), "fused");
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LinearGlu,
                         testing::Values(ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh,
                                         ActivationKind::kRelu),
                         [](const auto& test) { return std::string(activation_name(test.param)); });

}  // namespace
}  // namespace ingot
