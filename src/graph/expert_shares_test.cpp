#include "graph/expert_shares.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random_test_support.h"

namespace ingot {
namespace {

TEST(ExpertShares, InTurnWhereNothingIsKnown) {
  EXPECT_EQ(share_experts(5, 2), (ExpertShares{{0, 2, 4}, {1, 3}}));
  EXPECT_EQ(share_experts(3, 3), (ExpertShares{{0}, {1}, {2}}));
}

TEST(ExpertShares, TheBusiestAreRepeated) {
  const std::vector<int64_t> uses{90, 1, 1, 8};
  const ExpertShares shares = share_experts(4, 2, uses);
  ASSERT_EQ(shares.size(), 2u);
  for (const std::vector<int32_t>& own : shares) {
    EXPECT_EQ(own.size(), 3u);
    EXPECT_EQ(own.front(), 0);
  }
}

TEST(ExpertShares, EveryExpertIsSomewhereAndNoRankHasManyMore) {
  test::Random random(1);
  for (int round = 0; round < 2000; ++round) {
    const int ranks = 1 + static_cast<int>(random.below(8));
    const int64_t count = ranks + random.below(40);
    std::vector<int64_t> uses;
    for (int64_t e = 0; e < count; ++e) uses.push_back(random.below(3) == 0 ? 0 : random.below(1000));
    const ExpertShares shares = share_experts(count, ranks, uses);
    std::vector<int> copies(static_cast<size_t>(count), 0);
    for (const std::vector<int32_t>& own : shares) {
      EXPECT_LE(static_cast<int64_t>(own.size()), (count + ranks - 1) / ranks + 1);
      EXPECT_TRUE(std::ranges::is_sorted(own));
      EXPECT_EQ(std::ranges::adjacent_find(own), own.end());
      for (const int32_t e : own) ++copies[static_cast<size_t>(e)];
    }
    EXPECT_EQ(*std::ranges::min_element(copies) > 0, true);
  }
}

TEST(ExpertShares, MoreRanksThanExpertsAreRefused) {
  try {
    share_experts(4, 5);
    ADD_FAILURE() << "5 ranks have 4 experts";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[ep] 5 ranks for 4 experts: each needs one");
  }
}

}  // namespace
}  // namespace ingot
