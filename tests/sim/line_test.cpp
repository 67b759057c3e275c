// What becomes of the others while one waits for more pages than its tenant's share, and of that one.
#include <gtest/gtest.h>

#include "sim/core_fixture.h"
#include "sim/scarce_load.h"

namespace ingot::sim {
namespace {

// Three tenants: one makes long answers, one sends again and again what fits only once they have ended, and one has
// small requests.
struct LargePrompts {
  FairLoad load{kScarceConfig, kScarcePages, 1};
  const FairTenant steady = one_size("steady", 20, 5000), small = one_size("small", 200, 10), large;
  Waits waits;

  LargePrompts(int rows, double seconds) : large(one_size("large", rows, 5)) {
    load.tenants = {steady};
    load.run(3);
    load.tenants = {steady, large};
    load.model.longest_step = 0;
    waits = small_requests(load, small, seconds);
    std::printf("%d small requests: at most %.3f s, mean %.3f s; of %d rows: %d read\n", waits.n, waits.longest,
                waits.mean(), rows, n_read());
  }
  int n_read() { return static_cast<int>(load.tokens["large"] / large.prompt_to); }
};

// For the small ones there are pages beside the other two, or at the latest once a large one is read.
TEST(Line, SmallOnesGoPastWhoWaitsForMoreThanItsShare) {
  LargePrompts run(15'000, 40);
  EXPECT_LE(run.waits.longest, 1.2 * (3 * alone(run.small) + alone(run.large)) + run.load.model.longest_step);
  EXPECT_GE(run.n_read(), 10);
  EXPECT_GT(run.load.tokens["steady"], 10'000);
}

// Where nothing fits beside it others wait while it is read and a page further, in its turns.
TEST(Line, NobodyIsHeldUpForLongerThanOneIsRead) {
  LargePrompts run(15'900, 60);
  EXPECT_LE(run.waits.mean(), 0.1);
  EXPECT_LE(run.waits.longest, 1.5 * alone(run.large));
  EXPECT_GE(run.n_read(), 40);
  EXPECT_GT(run.load.tokens["steady"], 10'000);
}

// Those that decode beside what is read in its turn take no page from it: it is not read again for them.
TEST(Line, WhatIsReadInItsTurnIsReadOnce) {
  EngineConfig config = kScarceConfig;
  config.prefix_cache = false;
  FairLoad load(config, kScarcePages, 1);
  for (int i = 0; i < 4; ++i) load.tenants.push_back(one_size("steady" + std::to_string(i), 20, 700 + 30 * i));
  load.run(3);
  load.tenants.push_back(one_size("large", 15'200, 5));
  const int64_t rows = load.model.rows, made = load.tokens["large"];
  const double from = load.now();
  while (load.tokens["large"] < made + 5 * 15'205 && load.now() < from + 60) load.step();
  int64_t useful = load.tokens["large"] - made;
  for (int i = 0; i < 4; ++i) useful += load.tokens["steady" + std::to_string(i)];
  const double each = static_cast<double>(load.model.rows - rows) / static_cast<double>(useful);
  std::printf("five in %.1f s, %.2f rows for each of use\n", load.now() - from, each);
  // Answers give way to each of its turns and are computed again; it is not.
  EXPECT_LE(each, 1.25);
}

// Pages that are free are for whoever wants them, while one that its own tenant keeps out waits for more.
TEST(Line, WhoIsInItsOwnWayKeepsNoFreePages) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  FairTenant own = one_size("own", 20, 3000);
  own.weight = 4;  // it is the first in the line
  load.submit(own);
  load.submit(one_size("third", 20, 3000));
  load.run(0.1);
  own.prompt_from = own.prompt_to = 15'900;
  load.submit(own);
  load.run(0.1);
  const FairTenant large = one_size("large", 7'000, 5);
  const double waited = first_token(load, large);
  std::printf("a large one waits %.3f s, alone %.3f s\n", waited, alone(large));
  EXPECT_LE(waited, 1.2 * alone(large));
}

// Nor does the time behind one's own answer count for a turn to take the others'.
TEST(Line, ATurnIsWaitedForOnceNoneOfItsOwnIsInTheWay) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  load.submit(one_size("steady", 20, 6000));
  load.submit(one_size("own", 20, 1000));
  load.run(0.1);
  const FairTenant large = one_size("own", 15'900, 5);
  load.submit(large);
  while (load.tokens["own"] < 1020) load.step();
  const double from = load.now();
  while (load.core->stats().taken == 0) load.step();
  std::printf("its turn comes after %.3f s\n", load.now() - from);
  // Three quarters of what half of all rows takes longer than all.
  EXPECT_GE(load.now() - from, 0.7 * 15'900 * load.model.row_seconds);
}

// Also where that came later, and goes before it.
TEST(Line, NoTurnIsWaitedForBehindAMoreUrgentOne) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  load.submit(one_size("steady", 20, 6000));
  load.run(2);
  load.submit(one_size("own", 15'900, 5));
  for (int step = 0; step < 3; ++step) load.step();
  FairTenant urgent = one_size("own", 20, 1000);
  urgent.priority = 1;
  const SeqId first = load.submit(urgent);
  while (load.tokens["own"] < 1020) load.step();
  const double from = load.now();
  while (load.core->stats().taken == 0) load.step();
  std::printf("request %ld: its turn comes after %.3f s\n", static_cast<long>(first), load.now() - from);
  EXPECT_GE(load.now() - from, 0.7 * 15'900 * load.model.row_seconds);
}

// A long answer that gave way to one tenant's share and is read again gives way to another's too.
TEST(Line, WhatIsReadAgainKeepsNoPagesFromANewcomer) {
  EngineConfig config = kScarceConfig;
  config.prefix_cache = false;
  FairLoad load(config, kScarcePages, 1);
  const FairTenant giant = one_size("long", 14'000, 1900), second = one_size("second", 2000, 10);
  const FairTenant third = one_size("third", 2000, 10);
  load.submit(giant);
  while (load.tokens["long"] < 14'300) load.step();
  first_token(load, second);
  EXPECT_EQ(load.core->stats().taken, 1);
  load.run(0.1);  // it is back, and a part of it is read again
  EXPECT_EQ(load.core->stats().running, 1);
  load.model.longest_step = 0;
  EXPECT_LE(first_token(load, third), 1.2 * alone(third) * 3 + load.model.longest_step);
  EXPECT_EQ(load.core->stats().taken, 2);
  // Nor is it put off for ever by those that come again and again.
  load.tenants = {second, third, one_size("fourth", 2000, 10), one_size("fifth", 2000, 10)};
  const double from = load.now();
  while (load.tokens["long"] < 14'000 + 1900 && load.now() < from + 100) load.step();
  std::printf("the long answer took %.1f s more, %ld were taken\n", load.now() - from,
              static_cast<long>(load.core->stats().taken));
  EXPECT_EQ(load.tokens["long"], 14'000 + 1900);
}

}  // namespace
}  // namespace ingot::sim
