#include "serve/responses/response_store.h"

#include <gtest/gtest.h>

#include <set>

#include "serve/responses/response_id.h"

namespace ingot {
namespace {

class ResponseStoreTest : public testing::Test {
 protected:
  static KeptResponse of_size(size_t bytes) {
    return {.response = std::string(bytes, 'x'), .input = "[]", .output = "[]"};
  }

  double now_ = 0;
  ResponseStore store_{100000, [this] { return now_; }};
};

TEST_F(ResponseStoreTest, BelongsToItsTenant) {
  EXPECT_TRUE(store_.put("a", "r1", {.response = "{}", .input = "[1]", .output = "[2]"}));
  ASSERT_TRUE(store_.get("a", "r1"));
  EXPECT_EQ(store_.get("a", "r1")->conversation(), "[1,2]");
  EXPECT_FALSE(store_.get("b", "r1"));
  EXPECT_FALSE(store_.erase("b", "r1"));
  EXPECT_TRUE(store_.erase("a", "r1"));
  EXPECT_FALSE(store_.get("a", "r1"));
  EXPECT_EQ(store_.bytes(), 0u);
  EXPECT_EQ(store_.count(), 0u);
}

TEST_F(ResponseStoreTest, LastsAnHour) {
  EXPECT_TRUE(store_.put("a", "r1", of_size(10)));
  now_ = 1800;
  EXPECT_TRUE(store_.put("a", "r2", of_size(10)));
  now_ = 3599;
  EXPECT_TRUE(store_.get("a", "r1"));
  now_ = 3600;
  EXPECT_FALSE(store_.get("a", "r1"));
  EXPECT_TRUE(store_.get("a", "r2"));
  EXPECT_EQ(store_.count(), 1u);
}

TEST_F(ResponseStoreTest, TheOldestOfTheLargestGivesWay) {
  EXPECT_TRUE(store_.put("small", "s", of_size(20000)));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(store_.put("large", std::to_string(i), of_size(20000)));
  EXPECT_LE(store_.bytes(), 100000u);
  EXPECT_TRUE(store_.get("small", "s"));
  EXPECT_FALSE(store_.get("large", "16"));
  EXPECT_TRUE(store_.get("large", "17"));
  EXPECT_TRUE(store_.get("large", "19"));
  // A second tenant's share is half: what is more than that is not kept, and nothing goes for it.
  EXPECT_FALSE(store_.put("small", "t", of_size(60000)));
  EXPECT_TRUE(store_.get("large", "17"));
}

TEST_F(ResponseStoreTest, WhatIsBeingMadeHoldsNoMoreThanTheBytes) {
  std::shared_ptr<void> first = store_.hold("a", 60000);
  EXPECT_TRUE(first);
  EXPECT_FALSE(store_.hold("b", 50000));
  EXPECT_TRUE(store_.hold("b", 40000));
  first.reset();
  EXPECT_TRUE(store_.hold("a", 90000));
}

// However many answers a tenant has under way, another finds room.
TEST_F(ResponseStoreTest, OneTenantHoldsNoMoreThanItLeaves) {
  std::vector<std::shared_ptr<void>> held;
  for (int i = 0; i < 100; ++i) {
    if (auto room = store_.hold("greedy", 4000)) held.push_back(std::move(room));
  }
  EXPECT_EQ(held.size(), 13u);
  EXPECT_TRUE(store_.hold("modest", 40000));
  held.clear();
  EXPECT_TRUE(store_.hold("greedy", 100000));
}

TEST_F(ResponseStoreTest, NothingIsKeptWithoutBytes) {
  ResponseStore off;
  EXPECT_FALSE(off.on());
  EXPECT_FALSE(off.put("a", "r", of_size(1)));
  EXPECT_FALSE(off.get("a", "r"));
}

TEST(UnguessableId, IsNeverTheSame) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(unguessable_id("resp_"));
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(ids.begin()->size(), 5u + 32u);
}

}  // namespace
}  // namespace ingot
