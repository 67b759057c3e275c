// Rounding with feedback: the grid of every format, the factors of XᵀX, and what they are for.
#include "quant/gptq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/random_test_support.h"
#include "quant/format_test_support.h"
#include "quant/gptq_tiles.h"
#include "quant/gram.h"
#include "quant/gram_bf16.h"
#include "quant/grid.h"

namespace ingot {
namespace {

std::vector<float> normal(size_t n, uint64_t seed) {
  test::Random random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = random.normal();
  return x;
}

// Rows whose columns go together: few sources behind many columns, of very unequal sizes.
std::vector<float> correlated(int64_t rows, int64_t cols, uint64_t seed) {
  test::Random random(seed);
  const int64_t sources = cols / 4;
  std::vector<float> mix(static_cast<size_t>(sources * cols));
  for (float& v : mix) v = random.normal();
  std::vector<float> x(static_cast<size_t>(rows * cols)), source(static_cast<size_t>(sources));
  for (int64_t t = 0; t < rows; ++t) {
    for (float& v : source) v = random.normal();
    for (int64_t k = 0; k < cols; ++k) {
      float sum = 0.3f * random.normal();
      for (int64_t s = 0; s < sources; ++s)
        sum += source[static_cast<size_t>(s)] * mix[static_cast<size_t>(s * cols + k)];
      x[static_cast<size_t>(t * cols + k)] = sum * (k % 37 == 0 ? 20.0f : 1.0f);
    }
  }
  return x;
}

std::vector<std::byte> encode_rows(Format format, const std::vector<float>& values, int64_t rows, int64_t cols) {
  const int64_t row_bytes = format_row_bytes(format, cols);
  std::vector<std::byte> bytes(static_cast<size_t>(rows * row_bytes));
  for (int64_t r = 0; r < rows; ++r)
    format_encode(format, values.data() + r * cols, bytes.data() + r * row_bytes, cols);
  return bytes;
}

// Σ over rows of e H eᵀ, by the inputs themselves.
double output_error(Format format, const std::vector<float>& w, const std::vector<std::byte>& encoded, int64_t rows,
                    int64_t cols, const std::vector<float>& x) {
  const int64_t row_bytes = format_row_bytes(format, cols);
  std::vector<float> decoded(static_cast<size_t>(cols));
  double total = 0;
  for (int64_t r = 0; r < rows; ++r) {
    format_decode(format, encoded.data() + r * row_bytes, decoded.data(), cols);
    for (size_t t = 0; t < x.size(); t += static_cast<size_t>(cols)) {
      double sum = 0;
      for (int64_t k = 0; k < cols; ++k) {
        const auto i = static_cast<size_t>(k);
        sum += static_cast<double>(x[t + i]) *
               (static_cast<double>(w[static_cast<size_t>(r * cols) + i]) - static_cast<double>(decoded[i]));
      }
      total += sum * sum;
    }
  }
  return total;
}

class Grids : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(All, Grids, testing::ValuesIn(test::all_formats()),
                         [](const auto& test) { return std::string(format_name(test.param)); });

// What a row holds lies on its grid, and is found and written again as it was.
TEST_P(Grids, FindsTheStoredValuesAgain) {
  constexpr int64_t kCols = 768 + 256;
  const std::vector<float> x = normal(kCols, 5);
  std::vector<std::byte> bytes = encode_rows(GetParam(), x, 1, kCols);
  std::vector<float> stored(kCols), again(kCols);
  format_decode(GetParam(), bytes.data(), stored.data(), kCols);
  RowGrid grid(GetParam(), kCols);
  grid.read(bytes.data());
  for (int64_t k = 0; k < kCols; ++k)
    EXPECT_EQ(grid.choose(k, stored[static_cast<size_t>(k)]), stored[static_cast<size_t>(k)]) << k;
  grid.write(bytes.data());
  format_decode(GetParam(), bytes.data(), again.data(), kCols);
  EXPECT_EQ(again, stored);
}

// Whatever is asked for: what choose() says is what the row then holds.
TEST_P(Grids, WritesWhatItChose) {
  constexpr int64_t kCols = 512;
  const std::vector<float> x = normal(kCols, 6), wanted = normal(kCols, 7);
  std::vector<std::byte> bytes = encode_rows(GetParam(), x, 1, kCols);
  RowGrid grid(GetParam(), kCols);
  grid.read(bytes.data());
  std::vector<float> chosen(kCols), held(kCols);
  for (int64_t k = 0; k < kCols; ++k)
    chosen[static_cast<size_t>(k)] = grid.choose(k, 3 * wanted[static_cast<size_t>(k)]);
  grid.write(bytes.data());
  format_decode(GetParam(), bytes.data(), held.data(), kCols);
  EXPECT_EQ(held, chosen);
}

TEST(Gram, IsTheSumOfProductsWhateverTheThreads) {
  for (const int64_t cols : {1, 5, 96, 100, 203}) {
    constexpr int64_t kRows = 300;
    const std::vector<float> x = normal(static_cast<size_t>(kRows * (cols + 3)), 8);
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 7}) {
      ThreadPool pool(threads);
      Gram gram(cols);
      gram.add(x.data(), kRows, cols + 3, pool);
      EXPECT_EQ(gram.rows(), kRows);
      results.push_back(gram.take());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
    for (int64_t i = 0; i < cols; ++i) {
      for (int64_t k = i; k < cols; ++k) {
        double sum = 0;
        for (int64_t t = 0; t < kRows; ++t)
          sum += static_cast<double>(x[static_cast<size_t>(t * (cols + 3) + i)]) *
                 static_cast<double>(x[static_cast<size_t>(t * (cols + 3) + k)]);
        EXPECT_NEAR(results[0][static_cast<size_t>(i * cols + k)], sum, 1e-3 * kRows) << i << ' ' << k;
      }
    }
  }
}

Feedback feedback_of(const std::vector<float>& x, int64_t cols, const GptqOptions& options, int threads = 2) {
  ThreadPool pool(threads);
  Gram gram(cols);
  gram.add(x.data(), static_cast<int64_t>(x.size()) / cols, cols, pool);
  return make_feedback(gram.take(), cols, options, pool);
}

TEST(Gptq, LosesLessThanRoundingWhereInputsGoTogether) {
  constexpr int64_t kCols = 256, kRows = 19;
  const std::vector<float> x = correlated(600, kCols, 9), w = normal(kRows * kCols, 10);
  for (const bool in_order : {false, true}) {
    const Feedback feedback = feedback_of(x, kCols, {.in_order = in_order});
    for (const Format format :
         {Format::kQ4_0, Format::kQ4_K, Format::kQ3_K, Format::kIQ4_XS, Format::kINT4, Format::kMXFP4}) {
      const std::vector<std::byte> plain = encode_rows(format, w, kRows, kCols);
      std::vector<std::byte> better = plain;
      gptq_round(feedback, format, w, kRows, kCols, better);
      const double before = output_error(format, w, plain, kRows, kCols, x);
      EXPECT_LT(output_error(format, w, better, kRows, kCols, x), 0.5 * before) << format_name(format);
    }
  }
}

TEST(Gptq, IsPlainRoundingWhereInputsHaveNothingInCommon) {
  constexpr int64_t kCols = 320;
  ThreadPool pool(2);
  std::vector<float> h(kCols * kCols, 0.0f);
  for (int64_t k = 0; k < kCols; ++k)
    h[static_cast<size_t>(k * kCols + k)] = static_cast<float>(k % 7);  // some never met
  const Feedback feedback = make_feedback(std::move(h), kCols, {}, pool);
  const std::vector<float> w = normal(5 * kCols, 11);
  std::vector<std::byte> encoded = encode_rows(Format::kINT4, w, 5, kCols);
  const std::vector<std::byte> plain = encoded;
  gptq_round(feedback, Format::kINT4, w, 5, kCols, encoded);
  EXPECT_EQ(encoded, plain);
}

// Groups of 64 that are rows of their own to the format: as good as the format's own, which are larger.
TEST(Gptq, RoundsGroupsThatAreRowsOfTheirOwn) {
  constexpr int64_t kCols = 192, kRows = 9;
  const std::vector<float> x = correlated(400, kCols, 15), w = normal(kRows * kCols, 16);
  const Feedback feedback = feedback_of(x, kCols, {});
  for (const Format format : {Format::kINT4, Format::kINT4_ASYM}) {
    std::vector<std::byte> parts = encode_rows(format, w, kRows * kCols / 64, 64);
    const auto error = [&] {
      std::vector<float> decoded(w.size());
      const int64_t bytes = format_row_bytes(format, 64);
      for (int64_t p = 0; p < kRows * kCols / 64; ++p)
        format_decode(format, parts.data() + p * bytes, decoded.data() + 64 * p, 64);
      std::vector<std::byte> plain(w.size() * 4);
      std::memcpy(plain.data(), decoded.data(), plain.size());
      return output_error(Format::kF32, w, plain, kRows, kCols, x);
    };
    const double before = error();
    gptq_round(feedback, format, w, kRows, kCols, parts, 64);
    EXPECT_LT(error(), 0.5 * before) << format_name(format);
  }
}

TEST(Gptq, GivesTheSameBitsForAnyNumberOfThreads) {
  constexpr int64_t kCols = 200;
  const std::vector<float> x = correlated(300, kCols, 12);
  const Feedback one = feedback_of(x, kCols, {}, 1);
  for (const int threads : {2, 7}) {
    const Feedback other = feedback_of(x, kCols, {}, threads);
    EXPECT_EQ(one.factors, other.factors);
    EXPECT_EQ(one.order, other.order);
  }
}

class TileSets : public testing::TestWithParam<const GptqTiles*> {};
INSTANTIATE_TEST_SUITE_P(All, TileSets, testing::ValuesIn(all_gptq_tiles().begin(), all_gptq_tiles().end()),
                         [](const auto& test) { return std::string(test.param->name); });

// Sums, factors and codes are those of one float after another in the order that gptq_tiles.h gives; a set that rounds
// each product comes near.
TEST_P(TileSets, GiveTheSumsOfOneOrder) {
  const GptqTiles& tiles = *GetParam();
  const bool fused = std::string(tiles.name) != "baseline";
  const auto multiply_add = [&](float a, float b, float c) { return fused ? std::fma(a, b, c) : a * b + c; };
  const std::vector<float> factors = normal(40 * 130, 21), error = normal(40 * 16, 22), start = normal(130 * 16, 23);
  for (const int64_t width : {8, 16}) {
    for (const int64_t columns : {1, 2, 3, 7, 24, 59, 130}) {
      std::vector<float> wanted = start, expected = start;
      (width == 16 ? tiles.spread_16 : tiles.spread_8)(factors.data(), 130, error.data(), 40, wanted.data(), columns);
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t n = 0; n < width; ++n)
          for (int64_t i = 0; i < 40; ++i) {
            float& sum = expected[static_cast<size_t>(c * width + n)];
            sum =
                multiply_add(error[static_cast<size_t>(i * width + n)], factors[static_cast<size_t>(i * 130 + c)], sum);
          }
      EXPECT_EQ(wanted, expected) << width << ' ' << columns;
    }
  }
  constexpr int64_t kCols = 203, kRows = 300;
  const std::vector<float> x = normal(kRows * kCols, 24);
  ThreadPool pool(2);
  Gram gram(kCols, tiles);
  gram.add(x.data(), kRows, kCols, pool);
  const std::vector<float> sums = gram.take();
  for (size_t i = 0; !multiplies_bf16() && i < kCols; ++i) {
    for (size_t k = i; k < kCols; ++k) {
      float parts[2] = {};  // of 256 rows each
      for (size_t t = 0; t < kRows; ++t)
        parts[t / 256] = multiply_add(x[t * kCols + k], x[t * kCols + i], parts[t / 256]);
      ASSERT_EQ(sums[i * kCols + k], parts[0] + parts[1]) << i << ' ' << k;
    }
  }
}

TEST_P(TileSets, FactorAndRoundAlike) {
  constexpr int64_t kCols = 256;
  const std::vector<float> x = correlated(600, kCols, 25), w = normal(43 * kCols, 26);
  ThreadPool pool(2);
  const auto encode = [&](const GptqTiles& tiles, int64_t rows, std::vector<float>& factors) {
    Gram gram(kCols, tiles);
    gram.add(x.data(), 600, kCols, pool);
    const Feedback feedback = make_feedback(gram.take(), kCols, {}, pool, tiles);
    factors = feedback.factors;
    const std::vector<float> some(w.begin(), w.begin() + rows * kCols);
    std::vector<std::byte> encoded = encode_rows(Format::kQ4_K, some, rows, kCols);
    gptq_round(feedback, Format::kQ4_K, some, rows, kCols, encoded, 0, tiles);
    return encoded;
  };
  std::vector<float> factors, of_best, of_all;
  const std::vector<std::byte> all = encode(*GetParam(), 43, of_all);
  // However many rows lie side by side.
  for (const int64_t rows : {1, 8, 9, 16, 20, 32}) {
    const std::vector<std::byte> some = encode(*GetParam(), rows, factors);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << rows;
  }
  const std::vector<std::byte> best = encode(gptq_tiles(), 43, of_best);
  if (std::string(GetParam()->name) != "baseline") {
    EXPECT_EQ(of_all, of_best);
    EXPECT_EQ(all, best);
  }
  for (size_t i = 0; i < of_all.size(); ++i) ASSERT_NEAR(of_all[i], of_best[i], 1e-3f) << i;
}

// Fewer rows than columns: H has no inverse, and the damping is raised until it has.
TEST(Gptq, RaisesTheDampingUntilItCanFactor) {
  constexpr int64_t kCols = 128;
  const std::vector<float> x = correlated(8, kCols, 13), w = normal(4 * kCols, 14);
  const Feedback feedback = feedback_of(x, kCols, {.damping = 0});
  EXPECT_GT(feedback.damping, 0);
  std::vector<std::byte> encoded = encode_rows(Format::kQ4_0, w, 4, kCols);
  const double before = output_error(Format::kQ4_0, w, encoded, 4, kCols, x);
  gptq_round(feedback, Format::kQ4_0, w, 4, kCols, encoded);
  EXPECT_LT(output_error(Format::kQ4_0, w, encoded, 4, kCols, x), before);
}

TEST(Gptq, RefusesInputsThatAreNoNumbers) {
  ThreadPool pool(1);
  std::vector<float> h = {1, NAN, 0, 1};
  EXPECT_THROW(make_feedback(h, 2, {}, pool), Error);
}

}  // namespace
}  // namespace ingot
