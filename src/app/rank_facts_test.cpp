#include "app/rank_facts.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/config.h"

namespace ingot {
namespace {

const std::string kOwn = "the program: 12\n--ctx: 4096\n--no-fuse:\n";

std::string told(std::string_view theirs) {
  const auto found = first_difference(kOwn, theirs);
  return found ? fmt::format("{}|{}|{}", found->what, found->theirs, found->own) : "";
}

TEST(RankFacts, TheFirstDifferenceIsTold) {
  EXPECT_EQ(told(kOwn), "");
  EXPECT_EQ(told("the program: 12\n--ctx: 2048\n--no-fuse: x\n"), "--ctx| 2048| 4096");
  EXPECT_EQ(told("the program: 12\n--ctx: 4096\n--no-fuse: glu\n"), "--no-fuse| glu|");
  EXPECT_EQ(told("the program: 12\n--kv: f16\n--no-fuse:\n"), "--ctx| not told| 4096");
  EXPECT_EQ(told("the program: 12\n"), "--ctx| not told| 4096");
  EXPECT_EQ(told(""), "the program| not told| 12");
}

// Another program may tell more than this one asks, or what is no text at all.
TEST(RankFacts, NothingBehindTheOwnLinesIsOverlooked) {
  EXPECT_EQ(told(kOwn + "--new: 1\n"), "--new| 1| not told");
  EXPECT_EQ(told(kOwn + "\n"), "a line| not told| not told");
  EXPECT_NE(told(kOwn.substr(0, kOwn.size() - 1)), "");
  EXPECT_EQ(told("the program: \x1b[2J\xff\n"), "the program| ?[2J?| 12");
  EXPECT_EQ(told(kOwn + std::string("\0\r: 1", 5)), "??| 1| not told");
}

TEST(RankFacts, BytesOfTheCache) {
  const auto read = [](int64_t bytes) { return read_kv_bytes(std::as_bytes(std::span(&bytes, 1))); };
  for (const int64_t good : {int64_t{0}, int64_t{4096}, int64_t{1} << 50, kAllFreeBytes}) EXPECT_EQ(read(good), good);
  for (const int64_t bad : {int64_t{-1}, (int64_t{1} << 50) + 1, kAllFreeBytes - 1}) EXPECT_THROW(read(bad), Error);
  const std::vector<std::byte> longer(9);
  for (const size_t n : {0u, 7u, 9u}) EXPECT_THROW(read_kv_bytes(std::span(longer).first(n)), Error) << n;
}

}  // namespace
}  // namespace ingot
