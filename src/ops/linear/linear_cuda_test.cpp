// Linear on the device (or the emulated one) against the reference: rows and sizes that fill no tile, every format, and
// everything that is fused in.
#include "ops/linear/linear_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

// One weight, f32 rows, nothing fused.
void check_plain(Random& random, const TestWeight& w, int rows, int more_rows = 0) {
  SCOPED_TRACE(testing::Message() << rows << " rows, N " << w.weight().rows << ", K " << w.weight().cols);
  const int64_t cols = w.weight().cols, n = w.weight().rows;
  Buffer x(rows, cols, kTokenRows, cols + 3), out(rows, n, kTokenRows, n + 5), want(rows, n);
  x.fill_outliers(random);
  const Batch batch = rows_batch(rows);
  run_ref(plain(x, w, want), batch);
  DeviceRig rig(batch, {.more_rows = more_rows});
  rig.run(plain(x, w, out));
  out.expect_intact();
  const Format format = w.weight().format;
  const ProductError error(x, w, format != Format::kF32);
  // Many rows meet weights that are rounded too.
  const int roundings = format == Format::kBF16 ? 1 : 2;
  expect_near(
      out.values(), want.values(), n,
      [&](int64_t t, int64_t i, double v) { return roundings * error.at(t, i) + 4 * kEps * std::fabs(v); }, "out");
}

// --- Products ---

TEST(CudaLinear, FewRowsOfBf16) {
  INGOT_NEEDS_DEVICE();
  Random random(1);
  for (const int rows : {1, 2, 7, 8, 9, 15, 16}) {
    check_plain(random, TestWeight(random, Format::kBF16, 70, 96), rows);
    check_plain(random, TestWeight(random, Format::kBF16, 33, 45), rows, 1);
  }
  for (const int rows : {2, 12}) check_plain(random, TestWeight(random, Format::kBF16, 190, 64), rows);  // 48 a tile
  // More tiles than blocks, and more chunks than a ring holds.
  for (const int rows : {3, 15}) check_plain(random, TestWeight(random, Format::kBF16, 700, 64), rows);
  for (const int rows : {2, 16}) check_plain(random, TestWeight(random, Format::kBF16, 17, 1600), rows);
}

// Tiles of 16, 32 and 48 rows, that lie within one block's share, are cut once and cut often.
TEST(CudaLinear, SomeRowsOfBf16) {
  INGOT_NEEDS_DEVICE();
  Random random(12);
  for (const int rows : {17, 33, 64}) {
    check_plain(random, TestWeight(random, Format::kBF16, 70, 96), rows);
    check_plain(random, TestWeight(random, Format::kBF16, 190, 45), rows);
  }
  check_plain(random, TestWeight(random, Format::kBF16, 33, 736), 18, 3);
  check_plain(random, TestWeight(random, Format::kBF16, 1000, 64), 12);
  check_plain(random, TestWeight(random, Format::kBF16, 1, 1), 20);
}

TEST(CudaLinear, ManyRowsOfBf16) {
  INGOT_NEEDS_DEVICE();
  Random random(2);
  check_plain(random, TestWeight(random, Format::kBF16, 67, 72), 65);
  check_plain(random, TestWeight(random, Format::kBF16, 131, 136), 70, 2);
  check_plain(random, TestWeight(random, Format::kBF16, 40, 256), 130);
  check_plain(random, TestWeight(random, Format::kBF16, 520, 200), 300);  // gemm_clusters_cuda.cu, on Hopper
  check_plain(random, TestWeight(random, Format::kBF16, 19, 45), 66);     // rows that no 16 bytes fit
}

TEST(CudaLinear, EveryFormat) {
  INGOT_NEEDS_DEVICE();
  Random random(3);
  for (const Format format : all_formats()) {
    SCOPED_TRACE(format_name(format));
    const int64_t block = std::max<int64_t>(format_block(format), 32);
    check_plain(random, TestWeight(random, format, 21, format_whole_rows(format) ? 5 * block : block), 1);
    check_plain(random, TestWeight(random, format, 67, block), 9);
  }
  for (const int rows : {1, 8, 33}) check_plain(random, TestWeight(random, Format::kF32, 65, 131), rows);
}

TEST(CudaLinear, ScalesBesideTheData) {
  INGOT_NEEDS_DEVICE();
  Random random(4);
  TestWeight w(random, Format::kF8_E4M3, 40, 70);
  w.add_scales(random, 16, 32);
  for (const int rows : {1, 20}) check_plain(random, w, rows);
}

// x and out of bf16, as between the layers of a bf16 model.
TEST(CudaLinear, Bf16InAndOut) {
  INGOT_NEEDS_DEVICE();
  Random random(5);
  for (const int rows : {1, 9, 16, 21, 67, 260}) {
    for (const int64_t cols : {64, 40}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << cols);
      const TestWeight w(random, Format::kBF16, 50, cols);
      Buffer x(rows, cols), x16(rows, cols, kTokenRows, 0, DType::kBF16), want(rows, 50);
      Buffer out(rows, 50, kTokenRows, 56, DType::kBF16);
      x.fill_outliers(random);
      round_to_bf16(x, x16);
      const Batch batch = rows_batch(rows);
      run_ref(plain(x, w, want), batch);
      DeviceRig(batch).run(plain(x16, w, out));
      out.expect_intact();
      const ProductError error(x, w, false);
      expect_near(bf16_values(out), want.values(), 50, error.tolerance(1), "out");
    }
  }
}

// --- What is fused in ---

struct NormCase {
  bool add, add_norm;
};

void check_input(Random& random, Format format, int rows, NormCase c, int64_t cols = 96) {
  SCOPED_TRACE(testing::Message() << format_name(format) << ", " << rows << " rows");
  const int64_t n = 50;
  const TestWeight w(random, format, n, cols), norm(random, Format::kF32, 1, cols),
      inner(random, Format::kF32, 1, cols);
  // Rows that lie on borders of 16 bytes, and such that do not.
  Buffer x(rows, cols, kTokenRows, cols + 7 + rows % 2), add(rows, cols), sum(rows, cols), normed(rows, cols),
      added(rows, cols);
  Buffer want(rows, n), out(rows, n), want_sum(rows, cols);
  x.fill_outliers(random);
  add.fill_outliers(random);
  const Batch batch = rows_batch(rows);
  Linear op = plain(x, w, want);
  op.input.weight = norm.weight();
  op.input.eps = 1e-6f;
  if (c.add) op.input.add = add.tensor();
  if (c.add) op.input.sum = want_sum.tensor();
  if (c.add_norm) op.input.add_norm = inner.weight();
  op.input.add_eps = 1e-5f;
  run_ref(op, batch);
  // The rows that the weights meet, for the tolerance.
  Tensor b = add.tensor();
  if (c.add_norm) {
    run_ref(RmsNorm{b, inner.weight(), added.tensor(), cols, 1e-5f}, batch);
    b = added.tensor();
  }
  if (c.add) {
    run_ref(AddRmsNorm{x.tensor(), b, norm.weight(), sum.tensor(), normed.tensor(), 1e-6f}, batch);
  } else {
    run_ref(RmsNorm{x.tensor(), norm.weight(), normed.tensor(), cols, 1e-6f}, batch);
  }
  const ProductError error(normed, w, format != Format::kF32);
  op.parts[0].out = out.tensor();
  if (c.add) op.input.sum = sum.tensor();
  sum.poison();
  DeviceRig(batch).run(op);
  out.expect_intact();
  sum.expect_intact();
  expect_near(out.values(), want.values(), n, error.tolerance(), "out");
  if (!c.add) return;
  expect_near(sum.values(), want_sum.values(), cols, relative(64, 1e-5), "sum");
  // The sum in the place of x.
  op.input.sum = x.tensor();
  out.poison();
  DeviceRig(batch).run(op);
  expect_near(x.values(), want_sum.values(), cols, relative(64, 1e-5), "sum in place");
  expect_near(out.values(), want.values(), n, error.tolerance(), "out, sum in place");
}

TEST(CudaLinear, InputIsTheNormBefore) {
  INGOT_NEEDS_DEVICE();
  Random random(6);
  for (const int rows : {1, 3, 6, 9, 15, 16, 18, 65}) {
    for (const NormCase c : {NormCase{false, false}, {true, false}, {true, true}})
      check_input(random, Format::kBF16, rows, c);
  }
  // Rows of which a thread has one, two and more vectors.
  for (const int64_t cols : {2080, 4160, 8224}) check_input(random, Format::kBF16, 9, {true, true}, cols);
  check_input(random, Format::kF32, 5, {false, false});
  check_input(random, Format::kQ8_0, 2, {true, true});
}

void check_glu(Random& random, Format format, int rows, ActivationKind kind, bool bias, int64_t n = 41) {
  SCOPED_TRACE(testing::Message() << format_name(format) << ", " << rows << " rows, " << activation_name(kind));
  const int64_t cols = 64;
  const TestWeight gate(random, format, n, cols, 0.3f), up(random, format, n, cols, 0.3f);
  const TestWeight gate_bias(random, Format::kF32, 1, n), up_bias(random, Format::kF32, 1, n);
  Buffer x(rows, cols), want(rows, n), out(rows, n), a(rows, n), b(rows, n), unused(rows, n);
  x.fill([&] { return random.normal(); });
  const Batch batch = rows_batch(rows);
  Linear op = plain(x, gate, want);
  op.n_parts = 2;
  op.parts[1].weight = up.weight();
  op.parts[1].out = unused.tensor();
  op.glu = kind;
  if (bias) op.parts[0].bias = gate_bias.weight(), op.parts[1].bias = up_bias.weight();
  run_ref(op, batch);
  Linear first = plain(x, gate, a), second = plain(x, up, b);
  first.parts[0].bias = op.parts[0].bias;
  second.parts[0].bias = op.parts[1].bias;
  run_ref(first, batch);
  run_ref(second, batch);
  const bool bf16 = format != Format::kF32;
  const ProductError gate_error(x, gate, bf16), up_error(x, up, bf16);
  op.parts[0].out = out.tensor();
  DeviceRig(batch).run(op);
  out.expect_intact();
  // The slope of every activation is at most 1.13, and |f(x)| ≤ |x|. Many rows of bf16 are rounded between.
  const auto tolerance = [&](int64_t t, int64_t i, double want_value) {
    const double g = std::fabs(a.at(t, i)), u = std::fabs(b.at(t, i));
    const double eg = gate_error.at(t, i) + (bf16 ? kBf16 * (g + 8) : 0) + 8 * kEps * g;
    const double eu = up_error.at(t, i) + (bf16 ? kBf16 * (u + 8) : 0) + 8 * kEps * u;
    return 1.13 * eg * (u + eu) + g * eu + 16 * kEps * std::fabs(want_value);
  };
  expect_near(out.values(), want.values(), n, tolerance, "out");
}

TEST(CudaLinear, GatedUnits) {
  INGOT_NEEDS_DEVICE();
  Random random(7);
  for (const ActivationKind kind :
       {ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh, ActivationKind::kRelu})
    check_glu(random, Format::kBF16, 3, kind, false);
  for (const int rows : {1, 9, 15, 16, 19, 66}) check_glu(random, Format::kBF16, rows, ActivationKind::kSilu, true);
  check_glu(random, Format::kBF16, 67, ActivationKind::kGelu, true, 48);
  check_glu(random, Format::kF32, 2, ActivationKind::kSilu, true);
}

TEST(CudaLinear, ResidualAndBias) {
  INGOT_NEEDS_DEVICE();
  Random random(8);
  for (const Format format : {Format::kBF16, Format::kF16}) {
    for (const int rows : {1, 9, 15, 16, 20, 71, 260}) {
      SCOPED_TRACE(testing::Message() << format_name(format) << ", " << rows << " rows");
      const int64_t cols = 64, n = 33;
      const TestWeight w(random, format, n, cols), bias(random, Format::kF32, 1, n);
      Buffer x(rows, cols), residual(rows, n), want(rows, n), out(rows, n);
      x.fill_outliers(random);
      residual.fill_outliers(random);
      const Batch batch = rows_batch(rows);
      Linear op = plain(x, w, want);
      op.residual = residual.tensor();
      op.parts[0].bias = bias.weight();
      run_ref(op, batch);
      const ProductError error(x, w, format != Format::kF32);
      // Of more rows than the streaming kernel's the weights are rounded to bf16, too.
      const double roundings = format == Format::kF16 && rows > 8 ? 2 : 1;
      const auto tolerance = [&](int64_t t, int64_t i, double want_value) {
        return roundings * error.at(t, i) + 8 * kEps * (std::fabs(want_value) + std::fabs(residual.at(t, i)) + 8);
      };
      op.parts[0].out = out.tensor();
      DeviceRig(batch).run(op);
      expect_near(out.values(), want.values(), n, tolerance, "out");
      const std::vector<std::byte> saved = residual.save();
      op.parts[0].out = residual.tensor();
      DeviceRig(batch).run(op);
      const std::vector<float> in_place = residual.values();
      residual.restore(saved);
      expect_near(in_place, want.values(), n, tolerance, "out in place of the residual");
    }
  }
}

TEST(CudaLinear, SeveralParts) {
  INGOT_NEEDS_DEVICE();
  Random random(9);
  for (const int rows : {4, 9, 16, 17, 68}) {
    const int64_t cols = 64;
    const TestWeight w0(random, Format::kBF16, 20, cols), w1(random, Format::kBF16, 35, cols),
        w2(random, Format::kBF16, 3, cols);
    const TestWeight* weights[] = {&w0, &w1, &w2};
    Buffer x(rows, cols);
    x.fill_outliers(random);
    const Batch batch = rows_batch(rows);
    std::vector<std::unique_ptr<Buffer>> want, out;
    Linear op;
    op.x = x.tensor();
    op.n_parts = 3;
    for (size_t i = 0; i < 3; ++i) {
      want.push_back(std::make_unique<Buffer>(rows, weights[i]->weight().rows));
      out.push_back(std::make_unique<Buffer>(rows, weights[i]->weight().rows));
      op.parts[i].weight = weights[i]->weight();
      op.parts[i].out = want[i]->tensor();
    }
    run_ref(op, batch);
    for (size_t i = 0; i < 3; ++i) op.parts[i].out = out[i]->tensor();
    DeviceRig(batch).run(op);
    for (size_t i = 0; i < 3; ++i) {
      const ProductError error(x, *weights[i], true);
      expect_near(out[i]->values(), want[i]->values(), out[i]->cols(), error.tolerance(), "part " + std::to_string(i));
    }
  }
}

// A row's bits are the same in every batch.
TEST(CudaLinear, BatchInvariant) {
  INGOT_NEEDS_DEVICE();
  Random random(10);
  for (const Format format : {Format::kBF16, Format::kQ4_0}) {
    const int64_t cols = 160, n = 37;
    const TestWeight w(random, format, n, cols), norm(random, Format::kF32, 1, cols);
    const int most = 35;
    Buffer x(most, cols);
    x.fill_outliers(random);
    std::vector<float> first;
    for (const int rows : {1, 5, 9, 17, most}) {
      Buffer out(rows, n);
      Linear op = plain(x, w, out);
      op.input.weight = norm.weight();
      op.input.eps = 1e-6f;
      const Batch batch = rows_batch(rows);
      DeviceRig(batch, {.batch_invariant = true}).run(op);
      std::vector<float> row = out.values();
      row.resize(static_cast<size_t>(n));
      if (rows == 1) first = row;
      expect_same_bits(row, first, std::to_string(rows) + " rows");
    }
  }
}

}  // namespace
}  // namespace ingot
