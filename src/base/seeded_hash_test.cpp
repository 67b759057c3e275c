#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/hash_collisions_test_support.h"

namespace ingot {
namespace {

// As CPython 3.11 hashes bytes with PYTHONHASHSEED=0.
TEST(SeededHash, IsSipHash13) {
  EXPECT_EQ(sip_hash("a", 0, 0), 0x407448d2b89b1813u);
  EXPECT_EQ(sip_hash("abcdefgh", 0, 0), 0x3f7b849c0b8e35eau);
  EXPECT_EQ(sip_hash("the name of a tensor: blk.31.ffn_down.weight", 0, 0), 0x4354211c86fecbf2u);
  EXPECT_NE(sip_hash("a", 0, 0), sip_hash("a", 1, 0));
  EXPECT_NE(sip_hash("a", 0, 0), sip_hash("a", 0, 1));
}

TEST(SeededHash, KeysThatCollideForTheStandardLibraryDoNotHere) {
  const std::vector<std::string> keys = HashCollisions::strings(10);
  std::set<size_t> standard, ours;
  SeededSet table;
  for (const std::string& key : keys) {
    standard.insert(std::hash<std::string>{}(key));
    ours.insert(SeededHash{}(key));
    table.insert(key);
  }
  ASSERT_EQ(standard.size(), 1u) << "these no longer collide: the test shows nothing";
  EXPECT_EQ(ours.size(), keys.size());
  size_t most = 0;
  for (size_t b = 0; b < table.bucket_count(); ++b) most = std::max(most, table.bucket_size(b));
  EXPECT_LT(most, 12u);
}

}  // namespace
}  // namespace ingot
