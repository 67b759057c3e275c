// Activations of up to 1e5, which no 16-bit float with five bits of exponent holds, give no
// infinity and no NaN where float32 gives numbers.
#include <algorithm>

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;
using test::TestWeight;

constexpr float kLarge = 1e5f;

// About normal with a deviation of 3e4, and one value in 32 that is the largest.
float large(Random& random) {
  if (random.below(32) == 0) return random.below(2) == 0 ? kLarge : -kLarge;
  return std::clamp(3e4f * random.normal(), -kLarge, kLarge);
}

// Every format on every set, for few rows and many, against sums in float64: the mark of 5e-4 for the normalized
// squared error is that of rounding x to 8 bits.
TEST(LargeValues, Linear) {
  Random random(62);
  for (const Format format : test::all_formats()) {
    SCOPED_TRACE(format_name(format));
    const TestWeight w(random, format, 37, 512);
    for (const int64_t rows : {1, 5, 21}) {
      Buffer x(rows, 512), out(rows, 37);
      x.fill([&] { return large(random); });
      Linear op;
      op.x = x.tensor();
      op.parts[0].weight = w.weight();
      op.parts[0].out = out.tensor();
      test::for_each_kernels([&] {
        out.poison();
        test::run_cpu(op, test::rows_batch(static_cast<int>(rows)));
        double error = 0, size = 0;
        for (int64_t n = 0; n < 37; ++n) {
          const std::vector<float> row = w.row(n);
          for (int64_t t = 0; t < rows; ++t) {
            double want = 0;
            for (int64_t k = 0; k < 512; ++k)
              want += static_cast<double>(row[static_cast<size_t>(k)]) * static_cast<double>(x.at(t, k));
            ASSERT_TRUE(std::isfinite(out.at(t, n))) << t << ", " << n;
            const double off = static_cast<double>(out.at(t, n)) - want;
            error += off * off;
            size += want * want;
          }
        }
        EXPECT_LE(error, 5e-4 * size) << rows << " rows";
      });
    }
  }
}

// Keys, values and queries, in every type of the cache: an output is a mean of values, so it lies among them, or among
// what the type holds of them.
TEST(LargeValues, Attention) {
  constexpr int kRows = 70, kHeads = 4, kKvHeads = 2, kDim = 32;
  Random random(63);
  const Batch batch = test::make_batch({{kRows, 0}}, 16, 2);
  Buffer q(kRows, kHeads * kDim), k(kRows, kKvHeads * kDim), v(kRows, kKvHeads * kDim), out(kRows, kHeads * kDim);
  for (Buffer* b : {&q, &k, &v}) b->fill([&] { return large(random); });
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kFp8, DType::kQ8_0}) {
    SCOPED_TRACE(dtype_name(dtype));
    KvLayer kv{.group = 1, .kv_heads = kKvHeads, .k_dim = kDim, .v_dim = kDim, .page_rows = 16, .dtype = dtype};
    const size_t slots = batch.groups[1].page_table.size() * 16 * kKvHeads;
    test::for_each_kernels([&] {
      std::vector<std::byte> keys(slots * static_cast<size_t>(kv.k_bytes()), std::byte{0xff});
      std::vector<std::byte> values(slots * static_cast<size_t>(kv.v_bytes()), std::byte{0xff});
      kv.k = keys.data();
      kv.v = values.data();
      test::run_cpu(KvWrite{.k = k.tensor(), .v = v.tensor(), .kv = kv}, batch);
      for (const float scale : {1e-9f, 1 / std::sqrt(static_cast<float>(kDim))}) {
        out.poison();
        const Attention op{.q = q.tensor(),
                           .out = out.tensor(),
                           .kv = kv,
                           .heads = kHeads,
                           .window = 0,
                           .scale = scale,
                           .softcap = 0,
                           .sinks = {}};
        test::run_cpu(op, batch);
        for (const float value : out.values()) ASSERT_LE(std::fabs(value), kLarge * 1.01f);  // false for NaN
      }
    });
  }
}

TEST(LargeValues, Norms) {
  Random random(64);
  const TestWeight w(random, Format::kF32, 1, 576);
  Buffer x(3, 576), out(3, 576);
  x.fill([&] { return large(random); });
  test::for_each_kernels([&] {
    out.poison();
    test::run_cpu(RmsNorm{.x = x.tensor(), .weight = w.weight(), .out = out.tensor(), .width = 576, .eps = 1e-5f},
                  test::rows_batch(3));
    for (int64_t t = 0; t < 3; ++t) {
      double squares = 0;
      for (int64_t c = 0; c < 576; ++c) squares += static_cast<double>(x.at(t, c)) * static_cast<double>(x.at(t, c));
      const double root = std::sqrt(squares / 576 + 1e-5);
      for (int64_t c = 0; c < 576; ++c) {
        const double want =
            static_cast<double>(x.at(t, c)) / root * static_cast<double>(w.row(0)[static_cast<size_t>(c)]);
        ASSERT_NEAR(out.at(t, c), want, 1e-4 * std::fabs(want)) << t << ", " << c;
      }
    }
  });
}

}  // namespace
}  // namespace ingot
