#include "quant/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "quant/format_test_support.h"

namespace ingot {
namespace {

std::string test_name(const testing::TestParamInfo<Format>& info) { return std::string(format_name(info.param)); }

class EveryFormat : public testing::TestWithParam<Format> {
 protected:
  std::vector<uint8_t> random_bytes(int64_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(static_cast<size_t>(n));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random() & 0xff);
    return bytes;
  }
  const Format format_ = GetParam();
  const int64_t block_ = format_block(format_);
  const int64_t bytes_ = format_block_bytes(format_);
  const int64_t row_bytes_ = format_row_bytes(format_, block_);  // of one block
};
INSTANTIATE_TEST_SUITE_P(All, EveryFormat, testing::ValuesIn(test::all_formats()), test_name);

TEST_P(EveryFormat, IsFoundByItsNameInAnyCase) {
  std::string name(format_name(format_));
  EXPECT_EQ(format_by_name(name), format_);
  for (char& c : name) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(format_by_name(name), format_);
  EXPECT_EQ(format_by_name(name + "_"), std::nullopt);
  EXPECT_EQ(format_by_name(name.substr(0, name.size() - 1)), std::nullopt);
}

TEST_P(EveryFormat, IsFoundByItsGgufType) {
  if (const std::optional<uint32_t> type = gguf_type(format_)) {
    EXPECT_EQ(format_by_gguf_type(*type), format_);
  } else {
    EXPECT_TRUE(format_ == Format::kF8_E4M3 || format_ == Format::kF8_E5M2 || format_whole_rows(format_));
  }
}

TEST_P(EveryFormat, RowBytesAreWholeBlocks) {
  EXPECT_EQ(format_row_bytes(format_, 0), 0);
  if (format_whole_rows(format_)) {
    EXPECT_GT(format_row_bytes(format_, block_), bytes_);
    return;
  }
  EXPECT_EQ(format_row_bytes(format_, block_), bytes_);
  EXPECT_EQ(format_row_bytes(format_, 1024 * block_), 1024 * bytes_);
}

// Blocks are independent, wherever they lie in a row and at any address; nothing is written past the end.
TEST_P(EveryFormat, BlocksDecodeAloneAsInARow) {
  if (format_whole_rows(format_)) return;  // WholeRows below
  constexpr float kPoison = -12345.0f;
  constexpr int64_t kBlocks = 37;
  const std::vector<uint8_t> row = random_bytes(kBlocks * bytes_, 3);
  std::vector<float> whole(static_cast<size_t>(kBlocks * block_ + 8), kPoison);
  format_decode(format_, row.data(), whole.data(), kBlocks * block_);
  for (size_t i = whole.size() - 8; i < whole.size(); ++i) EXPECT_EQ(whole[i], kPoison);
  std::vector<uint8_t> moved(static_cast<size_t>(bytes_ + 1));
  std::vector<float> alone(static_cast<size_t>(block_ + 8), kPoison);
  for (int64_t b = 0; b < kBlocks; ++b) {
    std::memcpy(moved.data() + 1, row.data() + b * bytes_, static_cast<size_t>(bytes_));
    format_decode(format_, moved.data() + 1, alone.data(), block_);
    ASSERT_EQ(std::memcmp(alone.data(), whole.data() + b * block_, static_cast<size_t>(block_) * sizeof(float)), 0);
    ASSERT_EQ(alone[static_cast<size_t>(block_)], kPoison);
  }
}

TEST_P(EveryFormat, NoValuesTouchNothing) {
  float value = 7;
  uint8_t byte = 9;
  format_decode(format_, &byte, &value, 0);
  format_encode(format_, &value, &byte, 0);
  EXPECT_EQ(value, 7);
  EXPECT_EQ(byte, 9);
}

// Every byte pattern is a block: scales that are NaN, infinite or subnormal must only give odd values.
TEST_P(EveryFormat, AnyBytesDecode) {
  std::vector<float> out(static_cast<size_t>(block_));
  for (int pattern = 0; pattern < 256; ++pattern) {
    const std::vector<uint8_t> block(static_cast<size_t>(row_bytes_), static_cast<uint8_t>(pattern));
    format_decode(format_, block.data(), out.data(), block_);
  }
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::vector<uint8_t> block = random_bytes(row_bytes_, seed);
    format_decode(format_, block.data(), out.data(), block_);
  }
}

TEST_P(EveryFormat, AnyValuesEncode) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float odd[] = {std::nanf(""), kInf, -kInf, 3e38f, -3e38f, 1e-45f, -1e-40f, 0.0f, -0.0f, 65504.0f, 1e9f};
  std::mt19937 random(11);
  std::vector<float> in(static_cast<size_t>(block_)), out(in.size());
  std::vector<uint8_t> block(static_cast<size_t>(row_bytes_));
  for (const float v : odd) {
    std::fill(in.begin(), in.end(), v);
    format_encode(format_, in.data(), block.data(), block_);
    format_decode(format_, block.data(), out.data(), block_);
  }
  for (int round = 0; round < 200; ++round) {
    for (float& v : in) v = random() % 3 == 0 ? odd[random() % std::size(odd)] : 1.0f;
    format_encode(format_, in.data(), block.data(), block_);
    format_decode(format_, block.data(), out.data(), block_);
  }
}

// A row of any length, at any address; nothing is read or written past its end.
TEST(Format, WholeRows) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const Format format : test::all_formats()) {
    if (!format_whole_rows(format)) continue;
    SCOPED_TRACE(format_name(format));
    for (const int64_t n : {32, 96, 128, 160, 352}) {
      std::vector<float> in(static_cast<size_t>(n)), out(static_cast<size_t>(n) + 1, 77.0f), again(in.size());
      for (float& v : in) v = normal(random);
      const auto bytes = static_cast<size_t>(format_row_bytes(format, n));
      std::vector<uint8_t> row(bytes + 2, 0xaa), exact(bytes);
      format_encode(format, in.data(), row.data() + 1, n);
      EXPECT_EQ(row.front(), 0xaa);
      EXPECT_EQ(row.back(), 0xaa);
      format_decode(format, row.data() + 1, out.data(), n);
      EXPECT_EQ(out.back(), 77.0f);
      std::copy(row.begin() + 1, row.end() - 1, exact.begin());
      format_decode(format, exact.data(), again.data(), n);
      EXPECT_TRUE(std::equal(again.begin(), again.end(), out.begin()));
      for (size_t i = 0; i < in.size(); ++i) ASSERT_NEAR(out[i], in[i], 0.5f) << i;
    }
  }
}

// A group of 128 keeps its scale whatever stands in the others, also in a last group of 32.
TEST(Format, GroupsOfInt4AreIndependent) {
  for (const Format format : {Format::kINT4, Format::kINT4_ASYM}) {
    std::vector<float> in(288, 100.0f), out(288);
    for (size_t i = 0; i < 32; ++i) in[256 + i] = i % 2 == 0 ? 0.01f : -0.005f;
    std::vector<uint8_t> row(static_cast<size_t>(format_row_bytes(format, 288)));
    format_encode(format, in.data(), row.data(), 288);
    format_decode(format, row.data(), out.data(), 288);
    EXPECT_NEAR(out[255], 100.0f, 0.1f);
    for (size_t i = 256; i < 288; ++i) EXPECT_NEAR(out[i], in[i], 0.0006f);
  }
}

TEST(Format, NamesAndTypesAreUnique) {
  std::set<std::string_view> names;
  std::set<uint32_t> types;
  for (const Format format : test::all_formats()) {
    EXPECT_TRUE(names.insert(format_name(format)).second) << format_name(format);
    if (const auto type = gguf_type(format)) {
      EXPECT_TRUE(types.insert(*type).second) << *type;
    }
  }
}

TEST(Format, UnknownNamesAndTypesAreNothing) {
  EXPECT_EQ(format_by_name(""), std::nullopt);
  EXPECT_EQ(format_by_name("q9_9"), std::nullopt);
  EXPECT_EQ(format_by_gguf_type(4), std::nullopt);  // types 4 and 5 were withdrawn from GGUF
  EXPECT_EQ(format_by_gguf_type(1000), std::nullopt);
  EXPECT_EQ(format_by_gguf_type(0xffffffffu), std::nullopt);  // -1, "no GGUF type", finds nothing
}

TEST(Format, SizesAreThoseOfTheFiles) {
  struct Row {
    const char* name;
    int64_t block, bytes;
    int type;
  };
  const Row rows[] = {
      {"f32", 1, 4, 0},       {"f16", 1, 2, 1},       {"bf16", 1, 2, 30},       {"q4_0", 32, 18, 2},
      {"q4_1", 32, 20, 3},    {"q5_0", 32, 22, 6},    {"q5_1", 32, 24, 7},      {"q8_0", 32, 34, 8},
      {"q2_k", 256, 84, 10},  {"q3_k", 256, 110, 11}, {"q4_k", 256, 144, 12},   {"q5_k", 256, 176, 13},
      {"q6_k", 256, 210, 14}, {"iq4_nl", 32, 18, 20}, {"iq4_xs", 256, 136, 23}, {"mxfp4", 32, 17, 39},
      {"f8_e4m3", 1, 1, -1},  {"f8_e5m2", 1, 1, -1},  {"int4", 32, 16, -1},     {"int4_asym", 32, 16, -1},
      {"int8", 32, 32, -1},   {"nvfp4", 64, 36, 40}};
  for (const Row& row : rows) {
    const std::optional<Format> format = format_by_name(row.name);
    ASSERT_TRUE(format.has_value()) << row.name;
    EXPECT_EQ(format_block(*format), row.block) << row.name;
    EXPECT_EQ(format_block_bytes(*format), row.bytes) << row.name;
    const std::optional<uint32_t> type = gguf_type(*format);
    EXPECT_EQ(type ? static_cast<int>(*type) : -1, row.type) << row.name;
  }
}

// 4 bits and 16 or 24 for each 128; 8 bits and 32 for a row.
TEST(Format, BytesOfWholeRows) {
  EXPECT_EQ(format_row_bytes(Format::kINT4, 4096), 4096 / 2 + 4096 / 128 * 2);
  EXPECT_EQ(format_row_bytes(Format::kINT4, 576), 576 / 2 + 5 * 2);
  EXPECT_EQ(format_row_bytes(Format::kINT4_ASYM, 576), 576 / 2 + 5 * 3);
  EXPECT_EQ(format_row_bytes(Format::kINT8, 576), 576 + 4);
}

TEST(FormatDeathTest, PartOfABlockIsAProgrammersError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(format_row_bytes(Format::kQ4_0, 33), "33 columns in format q4_0");
}

}  // namespace
}  // namespace ingot
