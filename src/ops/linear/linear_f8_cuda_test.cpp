// Linear on the device with weights and rows of e4m3: against the reference over rows that are rounded here, for sizes
// that fill no tile, every kind of scale, split columns, and what is fused in.
#include "ops/linear/linear_cuda_test_support.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot {
namespace {

using namespace test;

constexpr double kError = 2e-7;      // of sums whose 128 columns have some 14 bits each: 7e-8 on an H200
constexpr double kBf16Error = 2e-5;  // of outputs in bf16

// As f8_rows.cuh says: of each 128 columns the power of two by which the largest magnitude is at most 448.
void round_rows(Buffer& x) {
  for (int64_t t = 0; t < x.rows(); ++t) {
    for (int64_t first = 0; first < x.cols(); first += 128) {
      float most = 0;
      for (int64_t c = first; c < first + 128; ++c) {
        x.at(t, c) = bf16_to_f32(f32_to_bf16(x.at(t, c)));
        most = std::max(most, std::fabs(x.at(t, c)));
      }
      float scale = 0x1p-110f;
      while (most > 448 * scale) scale *= 2;
      for (int64_t c = first; c < first + 128; ++c) {
        const float value = x.at(t, c) / scale;
        uint8_t code = 0;
        F8_E4M3::encode(&value, &code);
        F8_E4M3::decode(&code, &x.at(t, c));
        x.at(t, c) *= scale;
      }
    }
  }
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    squares += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return error / squares;
}

struct F8Case {
  int rows = 1;
  int64_t n = 70, cols = 256;
  int64_t scale_rows = 1, scale_cols = 0;  // 0: all columns
  int multiprocessors = 0;                 // 0: the device's
};

TestWeight& scaled(TestWeight& w, Random& random, const F8Case& c) {
  w.add_scales(random, c.scale_rows, c.scale_cols == 0 ? c.cols : c.scale_cols);
  return w;
}
void fill(Buffer& x, Random& random) {
  x.fill([&] { return random.normal() * (random.below(50) == 0 ? 40.0f : 1.0f); });
}

void check_plain(Random& random, const F8Case& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " rows, N " << c.n << ", K " << c.cols << ", scales of " << c.scale_rows
                                  << " x " << c.scale_cols << ", " << c.multiprocessors << " multiprocessors");
  TestWeight w(random, Format::kF8_E4M3, c.n, c.cols);
  scaled(w, random, c);
  const TestWeight bias(random, Format::kF32, 1, c.n);
  Buffer x(c.rows, c.cols, kTokenRows, c.cols + 4), sum(c.rows, c.n, kTokenRows, c.n + 5), want(c.rows, c.n),
      residual(c.rows, c.n);
  fill(x, random);
  residual.fill([&] { return random.normal(); });
  Linear op = plain(x, w, sum);
  op.parts[0].bias = bias.weight();
  op.residual = residual.tensor();
  const Batch batch = rows_batch(c.rows);
  DeviceRig(batch, {.multiprocessors = c.multiprocessors, .f8_rows = true}).run(op);
  sum.expect_intact();
  round_rows(x);
  op.parts[0].out = want.tensor();
  run_ref(op, batch);
  EXPECT_LE(relative_error(sum.values(), want.values()), kError);
}

TEST(CudaLinearF8, EveryNumberOfRows) {
  INGOT_NEEDS_DEVICE();
  Random random(41);
  for (const int rows : {1, 2, 5, 8, 9, 17, 33, 64, 65, 130}) check_plain(random, {.rows = rows});
  for (const int rows : {3, 20, 70}) {
    check_plain(random, {.rows = rows, .n = 190, .cols = 128});
    check_plain(random, {.rows = rows, .n = 40, .cols = 1024, .scale_rows = 40});
    check_plain(random, {.rows = rows, .n = 190, .cols = 256, .scale_rows = 128, .scale_cols = 128});
    // Splits of their columns, two or four.
    check_plain(random, {.rows = rows, .n = 150, .cols = 1152, .multiprocessors = 4});
    check_plain(random, {.rows = rows, .n = 20, .cols = 2176, .multiprocessors = 9});
  }
  // More tiles than multiprocessors, of every height.
  for (const int rows : {40, 100, 300}) {
    check_plain(random, {.rows = rows, .n = 300, .cols = 256, .multiprocessors = 1});
    check_plain(random,
                {.rows = rows, .n = 270, .cols = 256, .scale_rows = 16, .scale_cols = 128, .multiprocessors = 1});
  }
}

TEST(CudaLinearF8, GateAndUp) {
  INGOT_NEEDS_DEVICE();
  Random random(42);
  for (const ActivationKind kind : {ActivationKind::kSilu, ActivationKind::kGelu}) {
    for (const int rows : {1, 8, 20, 70, 140}) {
      for (const int multiprocessors : {1, 20}) {
        const F8Case c{.rows = rows, .n = 152, .cols = 256, .multiprocessors = multiprocessors};
        SCOPED_TRACE(testing::Message() << rows << " rows, " << multiprocessors << " multiprocessors");
        TestWeight gate(random, Format::kF8_E4M3, c.n, c.cols, 0.1f), up(random, Format::kF8_E4M3, c.n, c.cols, 0.1f);
        scaled(gate, random, c);
        scaled(up, random, c);
        Buffer x(rows, c.cols), unused(rows, c.n), want(rows, c.n);
        Buffer out(rows, c.n, kTokenRows, c.n, DType::kBF16);
        fill(x, random);
        Linear op = plain(x, gate, out);
        op.n_parts = 2;
        op.parts[1].weight = up.weight();
        op.parts[1].out = unused.tensor();
        op.glu = kind;
        const Batch batch = rows_batch(rows);
        DeviceRig(batch, {.multiprocessors = multiprocessors, .f8_rows = true}).run(op);
        round_rows(x);
        op.parts[0].out = want.tensor();
        run_ref(op, batch);
        EXPECT_LE(relative_error(bf16_values(out), want.values()), kBf16Error);
      }
    }
  }
}

// The norm's rows are rounded with the root, or without where it is made on the way from the product before.
TEST(CudaLinearF8, Norms) {
  INGOT_NEEDS_DEVICE();
  Random random(43);
  const int64_t cols = 256, n = 384, m = 70;
  for (const int rows : {1, 6, 8, 9, 40, 140}) {
    SCOPED_TRACE(rows);
    TestWeight a(random, Format::kF8_E4M3, n, cols), b(random, Format::kF8_E4M3, m, n);
    const TestWeight norm(random, Format::kF32, 1, n);
    Buffer x(rows, cols), middle(rows, n), weighted(rows, n), out(rows, m), want(rows, m);
    fill(x, random);
    const Batch batch = rows_batch(rows);
    const Linear first = plain(x, a, middle);
    Linear second = plain(middle, b, out);
    second.input.weight = norm.weight();
    second.input.eps = 1e-5f;
    const bool linked = DeviceRig(batch, {.f8_rows = true}).run_linked(first, second);
    for (const bool rooted : {false, true}) {
      if (rooted) {
        DeviceRig(batch, {.f8_rows = true}).run(second);
      } else if (!linked) {
        continue;
      }
      for (int t = 0; t < rows; ++t) {
        double squares = 0;
        for (int64_t i = 0; i < n; ++i)
          squares += static_cast<double>(middle.at(t, i)) * static_cast<double>(middle.at(t, i));
        const auto root = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(n) + 1e-5));
        const auto* weight = reinterpret_cast<const float*>(norm.weight().data);
        for (int64_t i = 0; i < n; ++i) weighted.at(t, i) = middle.at(t, i) * (rooted ? root : 1.0f) * weight[i];
      }
      round_rows(weighted);
      run_ref(plain(weighted, b, want), batch);
      if (!rooted) {
        for (int t = 0; t < rows; ++t) {
          double squares = 0;
          for (int64_t i = 0; i < n; ++i)
            squares += static_cast<double>(middle.at(t, i)) * static_cast<double>(middle.at(t, i));
          for (int64_t i = 0; i < m; ++i)
            want.at(t, i) *= static_cast<float>(1 / std::sqrt(squares / static_cast<double>(n) + 1e-5));
        }
      }
      // A root of another last bit may round a value to another code.
      EXPECT_LE(relative_error(out.values(), want.values()), rooted ? 1e-5 : kError) << rooted;
    }
  }
}

}  // namespace
}  // namespace ingot
