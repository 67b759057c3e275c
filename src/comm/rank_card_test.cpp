#include "comm/rank_card.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace ingot {
namespace {

const RankCard kCard{.host = "node-1", .place = "0af3 pid:[4026531836]", .cores = {3, 0, uint64_t{1} << 63}, .pid = 77};

std::string refusal(const CardBytes& bytes) {
  try {
    read_card(bytes, 5);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RankCard, WhatWasWrittenIsRead) {
  const RankCard read = read_card(write_card(kCard), 0);
  EXPECT_EQ(read.host, kCard.host);
  EXPECT_EQ(read.place, kCard.place);
  EXPECT_EQ(read.cores, kCard.cores);
  EXPECT_EQ(read.pid, 77);
  const RankCard longest{
      .host = std::string(kHostBytes - 1, 'h'), .place = std::string(kPlaceBytes - 1, 'p'), .pid = 1};
  EXPECT_EQ(read_card(write_card(longest), 0).host, longest.host);
  EXPECT_EQ(read_card(write_card(longest), 0).place, longest.place);
}

// Hosts stand in errors and on a terminal, and pids are watched.
TEST(RankCard, WhatIsNoCardIsRefused) {
  const CardBytes good = write_card(kCard);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_THROW(read_card(std::span(good).first(n), 0), Error) << n;
  CardBytes bad = good;
  bad[2] = std::byte{0x1b};
  EXPECT_EQ(refusal(bad), "[mpi] the card of rank 5: its host is no text");
  bad = good;
  bad[kHostBytes - 1] = std::byte{'x'};  // behind the end of the name
  EXPECT_EQ(refusal(bad), "[mpi] the card of rank 5: its host is no text");
  std::fill_n(bad.begin(), kHostBytes, std::byte{'x'});  // without an end
  EXPECT_EQ(refusal(bad), "[mpi] the card of rank 5: its host is no text");
  bad = good;
  bad[kHostBytes] = std::byte{0xc3};
  EXPECT_EQ(refusal(bad), "[mpi] the card of rank 5: its machine is no text");
  RankCard other = kCard;
  for (const int64_t pid : {int64_t{0}, int64_t{-1}, int64_t{1} << 31}) {
    other.pid = pid;
    EXPECT_EQ(refusal(write_card(other)), fmt::format("[mpi] the card of rank 5: {} is no process", pid));
  }
}

}  // namespace
}  // namespace ingot
