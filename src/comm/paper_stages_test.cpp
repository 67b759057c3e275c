#include "comm/paper_stages.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

// A message: 1 us, and 1 ns for each byte.
constexpr LinkModel kLinks = {.latency_us = 1, .gbs = 1};

TEST(PaperStages, OneStepWaitsForAllBefore) {
  PaperStages stages(3, kLinks);
  EXPECT_EQ(stages.arrival(0, 100, 500), 1100 + 2 * 1500);  // nobody knows yet what a stage needs
  stages.ended(10'000);
  EXPECT_EQ(stages.arrival(50'000, 100, 500), 50'000 + 1100 + 2 * 11'500);
}

TEST(PaperStages, StepsFollowEachOther) {
  PaperStages stages(3, kLinks);
  stages.arrival(0, 0, 1000);
  stages.ended(10'000);
  // Three at once: the second waits for the first stage, and comes as much later as a stage needs.
  const int64_t first = stages.arrival(100'000, 0, 1000);
  EXPECT_EQ(first, 100'000 + 1000 + 2 * 12'000);
  EXPECT_EQ(stages.arrival(100'000, 0, 1000), first + 10'000);
  EXPECT_EQ(stages.arrival(100'000, 0, 1000), first + 20'000);
}

TEST(PaperStages, ASizeOfItsOwn) {
  PaperStages stages(2, kLinks);
  stages.arrival(0, 0, 1000);
  stages.ended(10'000);
  stages.arrival(100'000, 0, 4000);
  stages.ended(30'000);
  EXPECT_EQ(stages.arrival(200'000, 0, 1000), 200'000 + 1000 + 10'000 + 2000);
  EXPECT_EQ(stages.arrival(300'000, 0, 2000), 300'000 + 1000 + 30'000 + 3000);  // the next larger
  EXPECT_EQ(stages.arrival(400'000, 0, 9000), 400'000 + 1000 + 30'000 + 10'000);
}

TEST(PaperStages, OneStageWaitsForNothing) {
  PaperStages stages(1, kLinks);
  EXPECT_EQ(stages.arrival(7, 100, 500), 7);
}

}  // namespace
}  // namespace ingot
