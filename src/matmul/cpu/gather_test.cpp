// A caller of the product that is no linear: rows of x by an index, as the experts of a layer read theirs. Bit for bit
// the product of the same rows copied one after another.
#include <algorithm>

#include "matmul/cpu/matmul.h"
#include "matmul/matmul_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;
using test::TestWeight;

constexpr Rows kFixedRows{RowKind::kFixed, 1, 0};
constexpr int64_t kStored = 40;  // rows of x that some are taken of

// Weights, a bias and a norm of one shape: two parts in one format and an odd number of outputs.
struct Operands {
  Operands(Random& random, Format format, int64_t n, int64_t cols)
      : gate(random, format, n, cols), up(random, format, n, cols), bias(static_cast<size_t>(n)) {
    for (float& b : bias) b = random.normal();
    norm.resize(static_cast<size_t>(cols));
    for (float& w : norm) w = random.normal();
  }
  TestWeight gate, up;
  std::vector<float> bias, norm;
};

enum class Kind { kPlain, kNormed, kGlu, kResidual };

Product product_of(const Operands& o, Kind kind, Buffer& x, Buffer& out, Buffer& second, Buffer& residual) {
  Product product;
  product.input.x = Matrix(x.tensor());
  if (kind != Kind::kPlain) {
    product.input.norm = o.norm.data();
    product.input.eps = 1e-5f;
  }
  product.parts[0] = {.weight = &o.gate.weight(), .bias = o.bias.data(), .out = Matrix(out.tensor())};
  product.n_parts = kind == Kind::kResidual ? 1 : 2;
  if (product.n_parts == 2)
    product.parts[1] = {.weight = &o.up.weight(), .bias = nullptr, .out = Matrix(second.tensor())};
  if (kind == Kind::kGlu) product.glu = ActivationKind::kSilu;
  if (kind == Kind::kResidual) product.residual = Matrix(residual.tensor());
  return product;
}

// With memory of exactly the size that was asked for, poisoned.
void multiply(Product product, int64_t rows, int threads, bool packed, const Loop* then = nullptr) {
  PackedStore store(0);
  ThreadPool& pool = test::pool_of(threads);
  if (packed) cpu::pack(product, store, pool);
  const cpu::ProductNeeds needs = cpu::product_needs(product, rows, threads);
  const int64_t scratch = (needs.scratch + 63) / 64 * 64;
  std::vector<std::byte> memory(static_cast<size_t>(scratch * threads + needs.shared + 64), std::byte{0xff});
  auto* base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  cpu::multiply(product, rows, pool, {.scratch = base, .scratch_bytes = scratch, .shared = base + scratch * threads},
                then);
}

void expect_same(const Operands& o, Kind kind, int64_t rows, bool packed, Random& random) {
  const int64_t n = o.gate.weight().rows, cols = o.gate.weight().cols;
  Buffer stored(kStored, cols, kFixedRows, cols + 5), copied(rows, cols, kFixedRows);
  Buffer out(rows, n, kFixedRows), second(rows, n, kFixedRows), residual(rows, n, kFixedRows);
  stored.fill_outliers(random);
  residual.fill_outliers(random);
  std::vector<int32_t> index(static_cast<size_t>(rows));
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t from = index[static_cast<size_t>(t)] = static_cast<int32_t>(random.below(kStored));
    for (int64_t c = 0; c < cols; ++c) copied.at(t, c) = stored.at(from, c);
  }
  multiply(product_of(o, kind, copied, out, second, residual), rows, 1, packed);
  const std::vector<float> want = out.values(), want_second = second.values();
  for (const int threads : {1, 2}) {
    out.poison();
    second.poison();
    Product gathered = product_of(o, kind, stored, out, second, residual);
    gathered.input.gather = index.data();
    multiply(gathered, rows, threads, packed);
    out.expect_intact();
    second.expect_intact();
    test::expect_same_bits(out.values(), want, "gathered");
    if (kind == Kind::kPlain || kind == Kind::kNormed) test::expect_same_bits(second.values(), want_second, "second");
  }
}

// Kinds of panels with blocks of 32 and of 128, of 16-bit floats, and weights without panels; few rows, more than a
// tile, and so many that panels are expanded.
TEST(GatheredProduct, IsTheProductOfCopiedRows) {
  Random random(5);
  for (const Format format :
       {Format::kQ4_0, Format::kQ8_0, Format::kQ4_K, Format::kQ6_K, Format::kBF16, Format::kF16, Format::kF32}) {
    SCOPED_TRACE(format_name(format));
    const Operands operands(random, format, 51, 512);
    test::for_each_kernels([&] {
      for (const int64_t rows : {1, 3, 8, 29, 70}) {
        SCOPED_TRACE(rows);
        for (const Kind kind : {Kind::kPlain, Kind::kNormed, Kind::kGlu, Kind::kResidual})
          expect_same(operands, kind, rows, true, random);
        expect_same(operands, Kind::kNormed, rows, false, random);
      }
    });
  }
}

// The caller's loop over whole rows of outputs runs when they are there, once for each.
TEST(ProductOnTheCpu, TheLastLoopSeesWholeRows) {
  Random random(6);
  constexpr int64_t kRows = 9, kOutputs = 70;
  const Operands operands(random, Format::kQ8_0, kOutputs, 512);
  Buffer x(kRows, 512, kFixedRows), out(kRows, kOutputs, kFixedRows), second(kRows, kOutputs, kFixedRows),
      residual(kRows, kOutputs, kFixedRows);
  x.fill_outliers(random);
  const Product product = product_of(operands, Kind::kPlain, x, out, second, residual);
  multiply(product, kRows, 1, false);
  const std::vector<float> want = out.values();
  out.poison();
  std::vector<float> seen(want.size());
  std::vector<int> times(kRows);
  const auto look = [&](int64_t t, int) {
    std::copy_n(out.tensor().f32(t), kOutputs, seen.begin() + t * kOutputs);
    ++times[static_cast<size_t>(t)];
  };
  const Loop then = loop(kRows, look);
  multiply(product, kRows, 3, false, &then);
  test::expect_same_bits(seen, want, "rows seen by the last loop");
  EXPECT_EQ(times, std::vector<int>(kRows, 1));
}

}  // namespace
}  // namespace ingot
