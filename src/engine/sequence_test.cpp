#include "engine/sequence.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

// The table of sequence.h.
TEST(SeqState, OnlyTheseTransitionsExist) {
  using enum SeqState;
  const std::vector<std::pair<SeqState, SeqState>> table = {
      {kNew, kWaiting},       {kNew, kHeldBack},    {kHeldBack, kWaiting}, {kWaiting, kRunning},
      {kPreempted, kRunning}, {kRunning, kPlanned}, {kPlanned, kRunning},  {kRunning, kPreempted},
      {kHeldBack, kGone},     {kWaiting, kGone},    {kRunning, kGone},     {kPreempted, kGone},
  };
  const SeqState all[] = {kNew, kHeldBack, kWaiting, kRunning, kPlanned, kPreempted, kGone};
  for (const SeqState from : all) {
    for (const SeqState to : all) {
      const bool there = std::ranges::find(table, std::pair(from, to)) != table.end();
      EXPECT_EQ(may_become(from, to), there) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(SeqState, AnotherTransitionIsAProgrammersError) {
  Sequence seq;
  seq.id = 7;
  EXPECT_EQ(seq.state(), SeqState::kNew);
  seq.become(SeqState::kWaiting);
  EXPECT_TRUE(seq.unserved());
  EXPECT_DEATH(seq.become(SeqState::kPlanned), "seq 7 is waiting and cannot be planned");
  seq.become(SeqState::kRunning);
  seq.become(SeqState::kPlanned);
  EXPECT_TRUE(seq.running());
  EXPECT_DEATH(seq.become(SeqState::kPreempted), "seq 7 is planned and cannot be preempted");
}

}  // namespace
}  // namespace ingot
