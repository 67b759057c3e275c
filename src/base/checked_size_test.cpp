#include "base/checked_size.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ingot {
namespace {

using Wide = unsigned __int128;
constexpr Wide kMax = ~uint64_t{0};

std::string message_of(auto&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CheckedSize, Basics) {
  EXPECT_EQ((CheckedSize(3) * 4 + 5 - 2).value(), 15u);
  EXPECT_EQ((CheckedSize(17) / 5).value(), 3u);
  EXPECT_EQ((CheckedSize(17) % 5).value(), 2u);
  EXPECT_EQ(CheckedSize(33).round_up(32).value(), 64u);
  EXPECT_EQ(CheckedSize(64).round_up(32).value(), 64u);
  EXPECT_LT(CheckedSize(1), CheckedSize(2));
  CheckedSize sum(1);
  sum += 2;
  sum *= CheckedSize(5);
  sum -= 1;
  EXPECT_EQ(sum, CheckedSize(14));
}

TEST(CheckedSize, ErrorsNameTheContext) {
  const uint64_t max = ~uint64_t{0};
  EXPECT_EQ(message_of([] { CheckedSize(-1, "[x] rows"); }), "[x] rows: -1 is negative");
  EXPECT_EQ(message_of([&] { CheckedSize(max, "[x] rows") + 1; }), "[x] rows: 18446744073709551615 + 1 overflows");
  EXPECT_EQ(message_of([&] { CheckedSize(max, "[x] rows") * 2; }), "[x] rows: 18446744073709551615 * 2 overflows");
  EXPECT_EQ(message_of([] { CheckedSize(1, "[x] rows") - 2; }), "[x] rows: 1 - 2 is negative");
  EXPECT_EQ(message_of([] { CheckedSize(1, "[x] rows") / 0; }), "[x] rows: 1 / 0");
  EXPECT_EQ(message_of([] { CheckedSize(1, "[x] rows") % 0; }), "[x] rows: 1 % 0");
  EXPECT_NE(message_of([&] { CheckedSize(max, "[x] rows").as_int64(); }), "");
  EXPECT_NE(message_of([&] { CheckedSize(max, "[x] rows").round_up(1 << 20); }), "");
  EXPECT_EQ(CheckedSize(max >> 1).as_int64(), INT64_MAX);
}

// bytes = product of dims / block * block bytes + offset, in 128-bit arithmetic beside the checked one. Dims have a
// random number of bits, so that about half of the products overflow.
TEST(CheckedSize, HundredThousandShapesAgainstWideArithmetic) {
  std::mt19937_64 random(2);
  int overflowed = 0;
  for (int i = 0; i < 100'000; i++) {
    std::vector<uint64_t> dims(1 + random() % 4);
    for (uint64_t& dim : dims) dim = random() >> (random() % 64);
    const uint64_t block_bytes = 1 + random() % 300;
    const uint64_t offset = random() >> (random() % 64);
    Wide expected = 1;
    bool fits = true;
    for (const uint64_t dim : dims) {
      expected *= dim;  // at most 2^64 * 2^64: kept below 2^64 by the test on the next line
      fits = fits && expected <= kMax;
      if (!fits) break;
    }
    if (fits) {
      expected = expected * block_bytes;
      fits = expected <= kMax;
    }
    if (fits) {
      expected += offset;
      fits = expected <= kMax;
    }
    bool ok = true;
    CheckedSize size(1);
    try {
      for (const uint64_t dim : dims) size *= dim;
      size = size * block_bytes + offset;
    } catch (const Error&) {
      ok = false;
    }
    ASSERT_EQ(ok, fits) << "shape " << i;
    if (ok) {
      ASSERT_EQ(size.value(), static_cast<uint64_t>(expected)) << "shape " << i;
    }
    overflowed += ok ? 0 : 1;
  }
  EXPECT_GT(overflowed, 10'000);
  EXPECT_LT(overflowed, 90'000);
}

TEST(CheckedSize, SubtractionAgainstWideArithmetic) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; i++) {
    const uint64_t a = random() >> (random() % 64);
    const uint64_t b = random() >> (random() % 64);
    const __int128 expected = static_cast<__int128>(a) - static_cast<__int128>(b);
    if (expected < 0) {
      ASSERT_THROW(CheckedSize(a) - b, Error);
    } else {
      ASSERT_EQ((CheckedSize(a) - b).value(), static_cast<uint64_t>(expected));
    }
  }
}

}  // namespace
}  // namespace ingot
