#include "comm/read_numbers.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace ingot {
namespace {

TEST(ReadNumbers, LengthAndRangeAreChecked) {
  const std::vector<int64_t> sent{3, -2};
  const auto message = std::as_bytes(std::span(sent));
  std::vector<int64_t> got(2);
  read_numbers(message, "x", -2, 3, got);
  EXPECT_EQ(got, sent);
  EXPECT_THROW(read_numbers(message, "x", -1, 3, got), Error);
  EXPECT_THROW(read_numbers(message, "x", -2, 2, got), Error);
  EXPECT_THROW(read_numbers(message.first(15), "x", -2, 3, got), Error);
  got.resize(3);
  EXPECT_THROW(read_numbers(message, "x", -2, 3, got), Error);
}

TEST(ReadNumbers, CountsOfARank) {
  RankCounts sent{.steps = 1, .step_ns = 2, .wait_ns = 3, .collective_ns = 4, .bytes = {}};
  sent.bytes.back() = 5;
  const auto message = std::as_bytes(std::span(&sent, 1));
  const RankCounts got = read_counts(message, 1);
  EXPECT_EQ(got.steps, 1);
  EXPECT_EQ(got.collective_ns, 4);
  EXPECT_EQ(got.bytes, sent.bytes);
  for (size_t n = 0; n < message.size(); ++n) EXPECT_THROW(read_counts(message.first(n), 1), Error) << n;
  sent.wait_ns = -1;
  EXPECT_THROW(read_counts(message, 1), Error);
}

}  // namespace
}  // namespace ingot
