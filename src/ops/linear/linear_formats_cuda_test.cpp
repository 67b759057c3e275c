// Linear on the device in every published format against the reference: sizes that fill no tile, chunk or group, and
// everything that is fused in. Up to eight rows weights are exact, and with rows that bf16 holds nothing is rounded but
// sums: there the bound is a thousandth of what one rounding of the weights to bf16 would cost.
#include "ops/linear/linear_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr double kExact = 1e-9, kRounded = 1e-5;
// Formats that have the kernels of wide.cuh and tall.cuh.
bool is_tall(Format format) {
  for (const Format f : {Format::kF16, Format::kQ4_0, Format::kINT4, Format::kMXFP4, Format::kQ8_0, Format::kINT8,
                         Format::kF8_E4M3, Format::kQ4_K, Format::kQ5_K, Format::kQ6_K, Format::kNVFP4})
    if (f == format) return true;
  return false;
}
double most_error(Format format, int rows) { return format == Format::kF32 || rows <= 8 ? kExact : kRounded; }

// The squared error relative to the squares.
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    squares += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return error / squares;
}

// Rows that bf16 holds.
void fill_bf16(Buffer& x, Random& random) {
  x.fill([&] { return bf16_to_f32(f32_to_bf16(random.normal())); });
}

// Columns that the format's blocks fill, and no chunk.
int64_t odd_cols(Format format) {
  const int64_t block = format_block(format);
  return block == 1 ? 70 : block == 32 ? 160 : 3 * block;
}

void check_weight(Random& random, const TestWeight& w, int rows, int multiprocessors = 0, double most = 0) {
  const int64_t n = w.weight().rows, cols = w.weight().cols;
  SCOPED_TRACE(testing::Message() << rows << " rows, N " << n << ", K " << cols);
  Buffer x(rows, cols, kTokenRows, cols + 3), out(rows, n, kTokenRows, n + 5), want(rows, n);
  fill_bf16(x, random);
  const Batch batch = rows_batch(rows);
  run_ref(plain(x, w, want), batch);
  DeviceRig(batch, {.multiprocessors = multiprocessors}).run(plain(x, w, out));
  out.expect_intact();
  EXPECT_LE(relative_error(out.values(), want.values()), most != 0 ? most : most_error(w.weight().format, rows));
}

TEST(CudaLinearFormats, EveryFormatAndNumberOfRows) {
  INGOT_NEEDS_DEVICE();
  Random random(31);
  for (const Format format : all_formats()) {
    SCOPED_TRACE(format_name(format));
    const TestWeight w(random, format, 70, odd_cols(format));
    for (const int rows : {1, 2, 5, 8, 9, 17, 33, 64, 65, 130}) check_weight(random, w, rows);
    check_weight(random, TestWeight(random, format, 3, format_block(format)), 2);
    // Tiles of every height, and more chunks than a ring holds.
    for (const int blocks : {1, 2, 6}) check_weight(random, TestWeight(random, format, 190, 512), 3, blocks);
    check_weight(random, TestWeight(random, format, 17, 10240), 1);
    if (!is_tall(format)) continue;
    check_weight(random, TestWeight(random, format, 150, 2048), 40, 6);   // split columns
    check_weight(random, TestWeight(random, format, 150, 2048), 20, 12);  // slices
    check_weight(random, TestWeight(random, format, 300, 256), 32, 1);    // slab after slab
    check_weight(random, TestWeight(random, format, 150, 2048), 9, 2);    // two sixteens of a warp
  }
}

TEST(CudaLinearFormats, ScalesBesideTheData) {
  INGOT_NEEDS_DEVICE();
  Random random(32);
  struct Scales {
    int64_t rows, cols;
  };
  for (const Format format : {Format::kF8_E4M3, Format::kF8_E5M2}) {
    for (const Scales s : {Scales{40, 300}, {1, 300}, {16, 128}, {128, 256}, {16, 32}}) {
      SCOPED_TRACE(testing::Message() << format_name(format) << ", scales of " << s.rows << " x " << s.cols);
      TestWeight w(random, format, 40, 300);
      w.add_scales(random, s.rows, s.cols);
      // Scales that reach over no whole chunk have no exact kernel. Of many rows scales are rounded, and weights again.
      check_weight(random, w, 3, 0, s.cols == 32 ? kRounded : 0);
      check_weight(random, w, 20, 0, 2 * kRounded);
    }
  }
}

// The scales of a tensor's groups beside that of the tensor; each part of a product has its own.
TEST(CudaLinearFormats, ScaleOfATensorOfNvfp4) {
  INGOT_NEEDS_DEVICE();
  Random random(35);
  TestWeight w(random, Format::kNVFP4, 70, 320), up(random, Format::kNVFP4, 70, 320);
  w.add_scales(random, 70, 320);
  up.add_scales(random, 70, 320);
  for (const int rows : {1, 8, 20, 65, 130}) {
    SCOPED_TRACE(rows);
    check_weight(random, w, rows);
    Buffer x(rows, 320), out(rows, 70), second(rows, 70), want(rows, 70), want_second(rows, 70);
    fill_bf16(x, random);
    const Batch batch = rows_batch(rows);
    const auto both = [&](Buffer& first, Buffer& other) {
      Linear op = plain(x, w, first);
      op.n_parts = 2;
      op.parts[1].weight = up.weight();
      op.parts[1].out = other.tensor();
      return op;
    };
    run_ref(both(want, want_second), batch);
    DeviceRig(batch).run(both(out, second));
    EXPECT_LE(relative_error(out.values(), want.values()), most_error(Format::kNVFP4, rows));
    EXPECT_LE(relative_error(second.values(), want_second.values()), most_error(Format::kNVFP4, rows));
  }
}

// Every scale of a group, subnormal ones, zero and the code that is no number, with every code. Row n has scale n
// everywhere, and code k % 16 in column k.
TEST(CudaLinearFormats, EveryScaleOfNvfp4) {
  INGOT_NEEDS_DEVICE();
  constexpr int64_t kRows = 128, kCols = 64;
  Random random(36);
  const TestWeight made(random, Format::kNVFP4, kRows, kCols);
  std::vector<std::byte> data(static_cast<size_t>(made.weight().bytes()));
  for (int64_t n = 0; n < kRows; ++n) {
    std::byte* block = data.data() + n * NVFP4::kBytes;
    for (int64_t g = 0; g < 4; ++g) block[g] = static_cast<std::byte>(n);
    for (int64_t i = 0; i < 32; ++i) block[4 + i] = static_cast<std::byte>(i % 8 | (i % 8 + 8) << 4);
  }
  Weight w = made.weight();
  w.data = data.data();
  for (const int rows : {16, 40}) {
    Buffer x(rows, kCols), out(rows, kRows), want(rows, kRows);
    x.fill([] { return 0.0f; });
    for (int t = 0; t < rows; ++t) x.at(t, t % 16) = 1;
    const Batch batch = rows_batch(rows);
    Linear op;
    op.x = x.tensor();
    op.parts[0].weight = w;
    op.parts[0].out = want.tensor();
    run_ref(op, batch);
    op.parts[0].out = out.tensor();
    DeviceRig(batch).run(op);
    for (int t = 0; t < rows; ++t)
      for (int64_t n = 0; n < kRows; ++n)
        ASSERT_EQ(out.at(t, n), want.at(t, n)) << "scale " << n << ", code " << t % 16;
  }
}

// All codes of 8 bits, the subnormal ones too; a code that is no number makes its outputs none.
TEST(CudaLinearFormats, EveryCodeOf8Bits) {
  INGOT_NEEDS_DEVICE();
  for (const Format format : {Format::kF8_E4M3, Format::kF8_E5M2, Format::kINT8, Format::kQ8_0}) {
    SCOPED_TRACE(format_name(format));
    Random random(33);
    const int64_t n = 256, cols = 32;
    const TestWeight made(random, format, n, cols);
    std::vector<std::byte> data(made.weight().data, made.weight().data + made.weight().bytes());
    Weight w = made.weight();
    // Column 0 of row i has code i, all others zero.
    for (int64_t i = 0; i < n; ++i) {
      std::byte* row = data.data() + i * w.row_bytes;
      const int64_t head = w.row_bytes - cols;
      for (int64_t k = 0; k < cols; ++k) row[head + k] = std::byte{0};
      row[head] = static_cast<std::byte>(i);
    }
    w.data = data.data();
    Buffer x(1, cols), out(1, n), want(1, n);
    x.fill([] { return 1.0f; });
    const Batch batch = rows_batch(1);
    Linear op;
    op.x = x.tensor();
    op.parts[0].weight = w;
    op.parts[0].out = want.tensor();
    run_ref(op, batch);
    op.parts[0].out = out.tensor();
    DeviceRig(batch).run(op);
    for (int64_t i = 0; i < n; ++i) {
      const double expected = want.at(0, i), got = out.at(0, i);
      if (!std::isfinite(expected)) {
        EXPECT_FALSE(std::isfinite(got)) << "code " << i;
      } else {
        EXPECT_NEAR(got, expected, 1e-5 * std::fabs(expected) + 1e-6) << "code " << i;
      }
    }
  }
}

// --- What is fused in ---

Linear gated(Buffer& x, const TestWeight& gate, const TestWeight& up, Buffer& out, Buffer& unused) {
  Linear op = plain(x, gate, out);
  op.n_parts = 2;
  op.parts[1].weight = up.weight();
  op.parts[1].out = unused.tensor();
  op.glu = ActivationKind::kSilu;
  return op;
}

void check_gated(Random& random, Format gate_format, Format up_format, int rows) {
  SCOPED_TRACE(testing::Message() << format_name(gate_format) << ", " << format_name(up_format) << ", " << rows
                                  << " rows");
  const int64_t n = 41, cols = 256;
  const TestWeight gate(random, gate_format, n, cols, 0.1f), up(random, up_format, n, cols, 0.1f);
  Buffer x(rows, cols), out(rows, n), want(rows, n), unused(rows, n);
  fill_bf16(x, random);
  const Batch batch = rows_batch(rows);
  run_ref(gated(x, gate, up, want, unused), batch);
  DeviceRig(batch).run(gated(x, gate, up, out, unused));
  out.expect_intact();
  // Both are rounded between the product and the unit where rows are many; mixed formats are read by it always.
  const bool exact = rows <= 8 && gate_format == up_format;
  EXPECT_LE(relative_error(out.values(), want.values()), exact ? kExact : 1e-4);
}

TEST(CudaLinearFormats, GatedUnits) {
  INGOT_NEEDS_DEVICE();
  Random random(34);
  for (const Format format : all_formats()) {
    if (format == Format::kBF16) continue;
    for (const int rows : {2, 9}) check_gated(random, format, format, rows);
  }
  for (const int rows : {1, 12}) check_gated(random, Format::kQ4_K, Format::kQ6_K, rows);
}

TEST(CudaLinearFormats, NormResidualAndBias) {
  INGOT_NEEDS_DEVICE();
  Random random(35);
  for (const Format format : all_formats()) {
    SCOPED_TRACE(format_name(format));
    for (const int rows : {1, 6, 20, 40}) {
      SCOPED_TRACE(testing::Message() << rows << " rows");
      const int64_t n = 50, cols = 256;
      const TestWeight w(random, format, n, cols), bias(random, Format::kF32, 1, n),
          norm(random, Format::kF32, 1, cols);
      Buffer x(rows, cols), residual(rows, n), out(rows, n), want(rows, n);
      x.fill([&] { return random.normal(); });
      residual.fill([&] { return random.normal(); });
      const Batch batch = rows_batch(rows);
      Linear op = plain(x, w, want);
      op.input.weight = norm.weight();
      op.input.eps = 1e-5f;
      op.residual = residual.tensor();
      op.parts[0].bias = bias.weight();
      run_ref(op, batch);
      op.parts[0].out = out.tensor();
      DeviceRig(batch).run(op, 2);
      EXPECT_LE(relative_error(out.values(), want.values()), format == Format::kF32 ? kExact : kRounded);
    }
  }
}

// Parts of different formats, as the files of mixed ones have them.
TEST(CudaLinearFormats, SeveralFormats) {
  INGOT_NEEDS_DEVICE();
  Random random(36);
  for (const int rows : {1, 7, 20}) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    const int64_t cols = 512;
    const TestWeight w0(random, Format::kQ4_K, 40, cols), w1(random, Format::kQ6_K, 35, cols),
        w2(random, Format::kQ4_K, 19, cols);
    const TestWeight* weights[] = {&w0, &w1, &w2};
    Buffer x(rows, cols);
    fill_bf16(x, random);
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
    // Launches beside each other; with 40 multiprocessors both are cut into slices at 20 rows.
    for (const int processors : {0, 40}) {
      DeviceRig(batch, {.multiprocessors = processors}).run(op, 2);
      std::vector<std::vector<float>> first;
      for (size_t i = 0; i < 3; ++i) {
        first.push_back(out[i]->values());
        EXPECT_LE(relative_error(first[i], want[i]->values()), most_error(Format::kQ4_K, rows)) << "part " << i;
      }
      DeviceRig(batch, {.overlap = false, .multiprocessors = processors}).run(op);
      for (size_t i = 0; i < 3; ++i) expect_same_bits(out[i]->values(), first[i], "one after the other");
    }
  }
}

// The norm is made on the way from the first to the second.
TEST(CudaLinearFormats, NormBetweenTwo) {
  INGOT_NEEDS_DEVICE();
  Random random(38);
  for (const Format format : {Format::kQ4_K, Format::kQ6_K, Format::kQ8_0, Format::kINT4, Format::kF8_E4M3}) {
    for (const int rows : {5, 9, 32, 33}) {
      SCOPED_TRACE(testing::Message() << format_name(format) << ", " << rows << " rows");
      const int64_t n = 256;
      const TestWeight a(random, format, n, n), b(random, format, 70, n), norm(random, Format::kF32, 1, n);
      Buffer x(rows, n), middle(rows, n), want_middle(rows, n), out(rows, 70), want(rows, 70);
      fill_bf16(x, random);
      const Batch batch = rows_batch(rows);
      Linear second = plain(middle, b, out);
      second.input.weight = norm.weight();
      second.input.eps = 1e-5f;
      const bool linked = DeviceRig(batch).run_linked(plain(x, a, middle), second);
      if (cuda::is_emulated()) {
        EXPECT_TRUE(linked);
      }
      run_ref(plain(x, a, want_middle), batch);
      EXPECT_LE(relative_error(middle.values(), want_middle.values()), most_error(format, rows));
      second.parts[0].out = want.tensor();
      run_ref(second, batch);
      EXPECT_LE(relative_error(out.values(), want.values()), kRounded);
    }
  }
}

// The same bits with kernels that overlap and without.
TEST(CudaLinearFormats, SameBitsWithoutOverlap) {
  INGOT_NEEDS_DEVICE();
  Random random(37);
  for (const Format format : {Format::kQ4_0, Format::kQ6_K, Format::kF8_E4M3}) {
    for (const int rows : {2, 30}) {
      const TestWeight w(random, format, 70, 512);
      Buffer x(rows, 512), first(rows, 70), second(rows, 70);
      x.fill([&] { return random.normal(); });
      const Batch batch = rows_batch(rows);
      DeviceRig(batch).run(plain(x, w, first));
      DeviceRig(batch, {.overlap = false}).run(plain(x, w, second));
      expect_same_bits(second.values(), first.values(), std::string(format_name(format)));
    }
  }
}

}  // namespace
}  // namespace ingot
