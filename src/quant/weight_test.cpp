#include "quant/weight.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ingot {
namespace {

struct Owned {
  std::vector<float> values;  // what the rows decode to, without scales
  std::vector<std::byte> bytes;
  Weight weight;
};

Owned make(Format format, int64_t rows, int64_t cols) {
  Owned o;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  o.values.resize(static_cast<size_t>(rows * cols));
  for (float& v : o.values) v = normal(random);
  o.bytes.resize(static_cast<size_t>(rows * format_row_bytes(format, cols)));
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* row = o.bytes.data() + r * format_row_bytes(format, cols);
    format_encode(format, o.values.data() + r * cols, row, cols);
    format_decode(format, row, o.values.data() + r * cols, cols);
  }
  o.weight = {.name = "w",
              .format = format,
              .rows = rows,
              .cols = cols,
              .data = o.bytes.data(),
              .row_bytes = format_row_bytes(format, cols)};
  return o;
}

TEST(Weight, RowsDecodeOneByOne) {
#define X(NAME) Format::k##NAME,
  for (const Format format : {INGOT_FORMATS(X)}) {
#undef X
    const Owned o = make(format, 5, 512);
    EXPECT_TRUE(o.weight);
    EXPECT_EQ(o.weight.bytes(), static_cast<int64_t>(o.bytes.size()));
    std::vector<float> row(512);
    for (const int64_t n : {4, 0, 2}) {
      o.weight.decode_row(n, row.data());
      for (size_t k = 0; k < row.size(); ++k) ASSERT_EQ(row[k], o.values[static_cast<size_t>(n) * 512 + k]);
    }
  }
}

// Blocks of scales that do not divide the matrix: 5 × 300 in blocks of 2 × 128, rows of 4 scales.
TEST(Weight, ScalesOfBlocksWithARest) {
  Owned o = make(Format::kF8_E4M3, 5, 300);
  std::vector<float> scale(3 * 4);
  for (size_t i = 0; i < scale.size(); ++i) scale[i] = 0.5f + static_cast<float>(i) * 0.3f;
  o.weight.scale = scale.data();
  o.weight.scale_rows = 2;
  o.weight.scale_cols = 128;
  o.weight.scale_stride = 4;
  std::vector<float> row(301, -1.0f);
  for (size_t n = 0; n < 5; ++n) {
    o.weight.decode_row(static_cast<int64_t>(n), row.data());
    for (size_t k = 0; k < 300; ++k) ASSERT_EQ(row[k], o.values[n * 300 + k] * scale[n / 2 * 4 + k / 128]);
    EXPECT_EQ(row[300], -1.0f);
  }
}

TEST(Weight, OneScaleForTheWholeTensorAndOneForEachRow) {
  Owned o = make(Format::kF8_E5M2, 3, 64);
  const float scale[3] = {0.125f, 3.0f, -2.0f};
  std::vector<float> row(64);
  o.weight.scale = scale;
  o.weight.scale_cols = 64;
  for (const bool each_row : {false, true}) {
    o.weight.scale_rows = each_row ? 1 : 3;
    o.weight.scale_stride = 1;
    for (size_t n = 0; n < 3; ++n) {
      o.weight.decode_row(static_cast<int64_t>(n), row.data());
      for (size_t k = 0; k < 64; ++k) ASSERT_EQ(row[k], o.values[n * 64 + k] * scale[each_row ? n : 0]);
    }
  }
}

TEST(Weight, RowsMayBeApart) {
  Owned o = make(Format::kQ8_0, 4, 32);
  o.weight.rows = 2;
  o.weight.row_bytes *= 2;  // every second row
  std::vector<float> row(32);
  o.weight.decode_row(1, row.data());
  for (size_t k = 0; k < 32; ++k) EXPECT_EQ(row[k], o.values[2 * 32 + k]);
}

TEST(WeightDeathTest, RowOutOfRangeIsAProgrammersError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Owned o = make(Format::kF32, 2, 8);
  std::vector<float> row(8);
  EXPECT_DEATH(o.weight.decode_row(2, row.data()), "row 2 of 2 in 'w'");
}

TEST(Weight, NothingIsFalse) { EXPECT_FALSE(Weight{}); }

}  // namespace
}  // namespace ingot
