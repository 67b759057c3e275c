#include "quant/stored_scales.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "quant/fields.h"

namespace ingot {
namespace {

constexpr int64_t kCols = 352;  // two groups and three quarters of one

std::vector<float> some_values(std::mt19937& random) {
  std::normal_distribution<float> normal(0.002f, 0.02f);
  std::vector<float> values(kCols);
  for (float& v : values) v = normal(random);
  return values;
}

TEST(StoredScales, AreOfTheirType) {
  EXPECT_EQ(scale_round_up(1.0f, ScaleType::kBF16), 1.0f);
  EXPECT_EQ(scale_round_up(std::nextafter(1.0f, 2.0f), ScaleType::kBF16), 1.0078125f);
  EXPECT_EQ(scale_round_up(std::nextafter(1.0f, 2.0f), ScaleType::kF16), 1.0009765625f);
  EXPECT_EQ(scale_round_up(0.1f, ScaleType::kF32), 0.1f);
  EXPECT_TRUE(is_scale(-1.0078125f, ScaleType::kBF16));
  EXPECT_FALSE(is_scale(1.0009765625f, ScaleType::kBF16));
  EXPECT_TRUE(is_scale(1.0009765625f, ScaleType::kF16));
}

TEST(StoredScales, OfRowsRiseAndCodesFollow) {
  std::mt19937 random(1);
  for (const ScaleType type : {ScaleType::kBF16, ScaleType::kF16, ScaleType::kF32}) {
    StoredScales scales(Format::kINT8, type, kCols);
    int raised = 0;
    for (int i = 0; i < 20; ++i) {
      const std::vector<float> values = some_values(random);
      std::vector<std::byte> row(static_cast<size_t>(format_row_bytes(Format::kINT8, kCols)));
      format_encode(Format::kINT8, values.data(), row.data(), kCols);
      const auto* bytes = reinterpret_cast<const uint8_t*>(row.data());
      const float fitted = INT8::scale(bytes);
      scales.fit(values.data(), nullptr, row.data());
      const float d = INT8::scale(bytes);
      EXPECT_EQ(d, scale_round_up(fitted, type));
      raised += d != fitted;
      for (int64_t k = 0; k < kCols; ++k) {
        const float got = d * static_cast<float>(static_cast<int8_t>(bytes[INT8::kHead + k]));
        EXPECT_LE(std::abs(got - values[static_cast<size_t>(k)]), 0.5001f * d);
      }
    }
    EXPECT_EQ(raised > 10, type != ScaleType::kF32);
  }
}

double squares(const std::vector<float>& values, const std::vector<float>& weights, Format format,
               const std::vector<std::byte>& row, int64_t begin, int64_t end) {
  std::vector<float> got(kCols);
  format_decode(format, row.data(), got.data(), kCols);
  double sum = 0;
  for (int64_t k = begin; k < end; ++k) {
    const auto i = static_cast<size_t>(k);
    sum += static_cast<double>(weights[i]) * std::pow(static_cast<double>(got[i] - values[i]), 2);
  }
  return sum;
}

// Each group has the neighbour of its scale that loses less: no worse than the other one, tried by hand.
TEST(StoredScales, OfGroupsAreTheBetterNeighbours) {
  std::mt19937 random(2);
  int up = 0, down = 0;
  for (const Format format : {Format::kINT4, Format::kINT4_ASYM}) {
    const int64_t stride = format_row_bytes(format, 128);
    StoredScales scales(format, ScaleType::kBF16, kCols);
    for (int i = 0; i < 20; ++i) {
      const std::vector<float> values = some_values(random);
      std::vector<float> weights(values.size());
      for (float& w : weights) w = static_cast<float>(random() % 100);
      std::vector<std::byte> fitted(static_cast<size_t>(format_row_bytes(format, kCols))), row;
      format_encode(format, values.data(), fitted.data(), kCols, weights.data());
      row = fitted;
      scales.fit(values.data(), weights.data(), row.data());
      for (int64_t begin = 0; begin < kCols; begin += 128) {
        const int64_t at = begin / 128 * stride, end = std::min(kCols, begin + 128);
        const auto head = [&](const std::vector<std::byte>& r) {
          return reinterpret_cast<const uint8_t*>(&r[static_cast<size_t>(at)]);
        };
        const float was = load_f16(head(fitted)), is = load_f16(head(row));
        EXPECT_TRUE(is_scale(is, ScaleType::kBF16));
        EXPECT_LT(std::abs(is / was - 1), 1.0f / 128);
        up += std::abs(is) > std::abs(was), down += std::abs(is) < std::abs(was);
        if (is == was) continue;
        // The other neighbour, and codes nearest on it.
        const auto bits = std::bit_cast<uint32_t>(is);
        const float other = std::bit_cast<float>(std::abs(is) > std::abs(was) ? bits - 0x10000u : bits + 0x10000u);
        std::vector<std::byte> tried = row;
        store_f16(other, reinterpret_cast<uint8_t*>(&tried[static_cast<size_t>(at)]));
        RowGrid grid(format, kCols);
        grid.read(tried.data());
        for (int64_t k = 0; k < kCols; ++k) grid.choose(k, values[static_cast<size_t>(k)]);
        grid.write(tried.data());
        EXPECT_LE(squares(values, weights, format, row, begin, end),
                  squares(values, weights, format, tried, begin, end) * 1.00001);
      }
    }
  }
  EXPECT_GT(up, 5);
  EXPECT_GT(down, 5);
  // f16 has its own scales already.
  std::vector<float> values = some_values(random);
  std::vector<std::byte> row(static_cast<size_t>(format_row_bytes(Format::kINT4, kCols))), was;
  format_encode(Format::kINT4, values.data(), row.data(), kCols);
  was = row;
  StoredScales(Format::kINT4, ScaleType::kF16, kCols).fit(values.data(), nullptr, row.data());
  EXPECT_EQ(row, was);
}

}  // namespace
}  // namespace ingot
