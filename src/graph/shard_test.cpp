#include "graph/shard.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ingot {
namespace {

TEST(Shard, HeadsAreWholeGroupsOrShareAKvHead) {
  // SmolLM2: 9 heads, 3 KV heads.
  const HeadShares two = share_heads(9, 3, 2);
  EXPECT_EQ(two.heads, (std::vector<ShardRange>{{0, 3}, {3, 9}}));
  EXPECT_EQ(two.kv_heads, (std::vector<ShardRange>{{0, 1}, {1, 3}}));
  const HeadShares four = share_heads(9, 3, 4);
  EXPECT_EQ(four.heads, (std::vector<ShardRange>{{0, 1}, {1, 3}, {3, 6}, {6, 9}}));
  EXPECT_EQ(four.kv_heads, (std::vector<ShardRange>{{0, 1}, {0, 1}, {1, 2}, {2, 3}}));
}

TEST(Shard, EveryHeadIsOnOneRankBesideItsKvHead) {
  for (int kv_heads = 1; kv_heads <= 8; ++kv_heads) {
    for (int group = 1; group <= 5; ++group) {
      for (int ranks = 1; ranks <= kv_heads * group; ++ranks) {
        const HeadShares shares = share_heads(kv_heads * group, kv_heads, ranks);
        int64_t next = 0;
        for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) {
          const ShardRange own = shares.heads[r], kv = shares.kv_heads[r];
          EXPECT_EQ(own.begin, next);
          EXPECT_GT(own.count(), 0) << kv_heads << " x " << group << " on " << ranks;
          EXPECT_EQ(own.begin / group, kv.begin);
          EXPECT_EQ((own.end - 1) / group + 1, kv.end);
          EXPECT_EQ(own.count() % kv.count(), 0);
          next = own.end;
        }
        EXPECT_EQ(next, kv_heads * group);
      }
    }
  }
}

TEST(Shard, MoreRanksThanHeadsAreRefused) {
  try {
    share_heads(4, 2, 5);
    ADD_FAILURE() << "5 ranks have 4 heads";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[tp] 5 ranks for 4 heads of attention: each needs one");
  }
}

TEST(Shard, EvenSharesAreMultiplesOfTheirUnit) {
  EXPECT_EQ(share_evenly(576, 16, 2), (std::vector<ShardRange>{{0, 288}, {288, 576}}));
  EXPECT_EQ(share_evenly(48, 16, 2), (std::vector<ShardRange>{{0, 16}, {16, 48}}));
  EXPECT_TRUE(share_evenly(48, 16, 4).empty());
  EXPECT_TRUE(share_evenly(49, 16, 2).empty());
  EXPECT_TRUE(share_evenly(1, 1, 2).empty());
}

}  // namespace
}  // namespace ingot
