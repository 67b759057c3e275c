#include "serve/tenants/shared_room.h"

#include <gtest/gtest.h>

#include <vector>

namespace ingot {
namespace {

TEST(SharedRoom, EachMayHaveAsMuchAsItLeavesFree) {
  SharedRoom room(100);
  std::vector<std::shared_ptr<void>> alice, bob;
  while (auto part = room.hold("alice", 10)) alice.push_back(part);
  EXPECT_EQ(alice.size(), 5u);
  while (auto part = room.hold("bob", 10)) bob.push_back(part);
  EXPECT_EQ(bob.size(), 3u);
  EXPECT_EQ(room.held(), 80u);
  EXPECT_NE(room.hold("carol", 20), nullptr) << "whoever comes finds some";
  EXPECT_EQ(room.hold("carol", 21), nullptr);
  alice.clear();
  EXPECT_EQ(room.held(), 30u);
  EXPECT_NE(room.hold("bob", 20), nullptr);
}

TEST(SharedRoom, OneRequestMayTakeAllOfIt) {
  SharedRoom room(100);
  const auto all = room.hold("alice", 100);
  EXPECT_NE(all, nullptr);
  EXPECT_EQ(room.hold("bob", 1), nullptr);
  EXPECT_NE(room.hold("bob", 0), nullptr);
  EXPECT_EQ(room.hold("bob", SIZE_MAX), nullptr);
  EXPECT_EQ(room.held(), 100u);
}

TEST(SharedRoom, WhatIsHeldMayOutliveIt) {
  std::shared_ptr<void> part;
  {
    SharedRoom room(100);
    part = room.hold("alice", 10);
  }
  EXPECT_NE(part, nullptr);
}

}  // namespace
}  // namespace ingot
