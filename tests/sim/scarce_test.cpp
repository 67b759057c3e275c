// What a tenant cannot do to the others where pages are scarce, whatever it sends and takes back.
#include <gtest/gtest.h>

#include "sim/scarce_load.h"

namespace ingot::sim {
namespace {

const FairTenant kSmall = one_size("small", 200, 10);

void say(const char* what, const Waits& waits) {
  std::printf("%s: %d small requests: at most %.3f s, mean %.3f s\n", what, waits.n, waits.longest, waits.mean());
}

// While a tenant's own answer keeps its next prompt out, others wait for neither.
TEST(Scarce, WhoIsInItsOwnWayHoldsUpNobody) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  load.tenants = {one_size("own", 2000, 14'000)};
  load.run(0.5);
  load.submit(one_size("own", 15'900, 5));
  load.model.longest_step = 0;
  const Waits waits = small_requests(load, kSmall, 20);
  say("own", waits);
  EXPECT_LE(waits.longest, 1.2 * alone(kSmall) * 2 + load.model.longest_step);
}

// While one that took pages from a long answer waits for its next turn to take them, others have those that are free.
TEST(Scarce, WhoMayNotTakeYetHoldsUpNobody) {
  for (const double weight : {1.0, 5.0}) {
    FairLoad load(kScarceConfig, kScarcePages, 1);
    FairTenant giant = one_size("long", 14'400, 1'500), turns = one_size("turns", weight == 1 ? 4000 : 1700, 10);
    giant.weight = weight;
    load.tenants = {giant};
    while (load.tokens["long"] < 14'500) load.step();
    load.tenants.push_back(turns);
    load.run(0.2);
    EXPECT_GE(load.core->stats().taken, 1);
    load.model.longest_step = 0;
    const Waits waits = small_requests(load, kSmall, 1.5);
    say("turns", waits);
    // Twice what a newcomer's share of the rows takes: the long answer is computed again and given rows back meanwhile.
    EXPECT_LE(waits.longest, 2 * 1.2 * alone(kSmall) * (2 + weight)) << weight;
    EXPECT_GE(load.core->stats().taken, weight == 1 ? 2 : 1) << weight;
  }
}

// While a tenant that uses most of its share waits for a little more, which another will not give, others begin.
TEST(Scarce, WhoIsRefusedHoldsUpNobody) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  FairTenant giant = one_size("long", 9'200, 3'000), most = one_size("most", 5'700, 3'000), small = kSmall;
  giant.weight = most.weight = 2;
  small.weight = 0.5;
  first_token(load, giant);
  first_token(load, most);
  most.prompt_from = most.prompt_to = 1'120;
  load.submit(most);
  load.run(0.02);
  load.model.longest_step = 0;
  const Waits waits = small_requests(load, small, 0.35);
  say("refused", waits);
  EXPECT_EQ(load.core->stats().taken, 0);
  EXPECT_EQ(load.core->stats().waiting, 1);
  EXPECT_LE(waits.longest, 1.2 * alone(kSmall) * 9 + load.model.longest_step);
}

// Those that give pages to one are foreseen as a whole: where the next would not, the first is not set back either.
TEST(Scarce, NobodyIsSetBackForWhatGetsNoRoom) {
  EngineConfig config = kScarceConfig;
  config.chunk_rows = config.step_rows / 2;
  FairLoad load(config, kScarcePages, 1);
  load.submit(one_size("other", 2'000, 3'000));
  load.run(0.1);
  const SeqId giant = load.submit(one_size("giant", 12'000, 500)), small = load.submit(one_size("giant", 200, 500));
  while (!load.first.contains(small)) load.step();
  ASSERT_FALSE(load.first.contains(giant));
  // Pages for all of it are there once the giant's prompt gives way, which it does not while it is read.
  const SeqId wants = load.submit(one_size("other", 3'000, 10));
  while (!load.first.contains(giant)) {
    ASSERT_EQ(load.core->stats().taken, 0);
    load.step();
  }
  while (!load.first.contains(wants)) load.step();
  EXPECT_GE(load.core->stats().taken, 1);
}

// A place is taken for what gets its pages too: nothing is computed again for one that then waits all the same.
TEST(Scarce, NoPlaceIsTakenForWhatGetsNoPages) {
  EngineConfig config = kScarceConfig;
  config.max_seqs = 4;
  config.prefix_cache = false;
  FairLoad load(config, kScarcePages, 1);
  load.tenants = {one_size("many", 2000, 1500, 6)};
  load.run(2);
  load.tenants.push_back(one_size("large", 13'000, 5));
  const int64_t rows = load.model.rows, useful = load.tokens["many"] + load.tokens["large"];
  load.run(60);
  const auto ended = load.tokens["large"] / 13'000;
  const double all = static_cast<double>(load.model.rows - rows);
  const double made = static_cast<double>(load.tokens["many"] + load.tokens["large"] - useful);
  std::printf("place: %ld taken, %.2f rows for each of use, %ld large\n", static_cast<long>(load.core->stats().taken),
              all / made, static_cast<long>(ended));
  EXPECT_LE(load.core->stats().taken, 3 * (ended + 1));
  EXPECT_LE((all - made) * load.model.row_seconds, 60.0 / 5);
  EXPECT_GE(ended, 30);
}

// One that takes its prompts back again and again gets no longer turns by it.
TEST(Scarce, TurnsAreNoLongerByCancelling) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  load.tenants = {one_size("steady", 20, 5000)};
  load.run(3);
  warm_up(load);
  const FairTenant large = one_size("large", 15'900, 5);
  load.model.longest_step = 0;
  SeqId last = load.submit(large);
  Waits waits;
  for (const double until = load.now() + 90; load.now() < until;) {
    waits.add(small_requests(load, kSmall, 1));
    load.cancel(last);
    last = load.submit(large);
  }
  say("cancel", waits);
  EXPECT_GE(load.core->stats().taken, 20) << "it has no turns";
  EXPECT_LE(waits.longest, 1.5 * alone(large));
}

// Several that each want nearly all pages keep small ones out for no longer at a time than a turn of one of them, and
// none uses up another's: each has its part.
TEST(Scarce, TurnsOfSeveralDoNotAddUp) {
  const FairTenant large = one_size("", 15'900, 5);
  for (const int n : {1, 2, 3}) {
    FairLoad load(kScarceConfig, kScarcePages, 1);
    load.tenants = {one_size("steady", 20, 5000)};
    load.run(3);
    warm_up(load);
    for (int i = 0; i < n; ++i) load.tenants.push_back(one_size("large" + std::to_string(i), 15'900, 5));
    const Waits waits = small_requests(load, kSmall, 60);
    say(std::to_string(n).c_str(), waits);
    EXPECT_LE(waits.longest, 2 * alone(large)) << n;
    EXPECT_LE(waits.mean(), 0.15) << n;
    for (int i = 0; i < n; ++i) {
      const auto read = load.tokens["large" + std::to_string(i)] / 15'900;
      std::printf("%d of %d: %ld read\n", i + 1, n, static_cast<long>(read));
      EXPECT_GE(read, 40 / n) << n;
    }
  }
}

// Tenants whose requests are all larger than their shares of the pages: who waits is the first once somebody has been
// served, and nobody is served again and again while others wait.
TEST(Scarce, WhoseRequestsAreLargeGetEqualParts) {
  for (const bool cache : {false, true}) {
    EngineConfig config = kScarceConfig;
    config.max_seqs = 16;
    config.prefix_cache = cache;
    FairLoad load(config, kScarcePages, 1);
    for (int i = 0; i < 10; ++i) load.tenants.push_back(one_size("t" + std::to_string(i), 2500, 500, 2));
    load.run(60);
    int64_t all = 0, least = INT64_MAX;
    for (const auto& [name, tokens] : load.tokens) {
      all += tokens;
      least = std::min(least, tokens);
    }
    std::printf("large: of %ld tokens the least %ld, %ld rows\n", static_cast<long>(all), static_cast<long>(least),
                static_cast<long>(load.model.rows));
    EXPECT_GE(static_cast<double>(least), 0.7 * static_cast<double>(all) / 10) << cache;
    // One row in five of the time is computed again, for which the long answers leave most of it.
    EXPECT_LE(static_cast<double>(load.model.rows - all) * load.model.row_seconds, 60.0 / 5) << cache;
  }
}

// However many tenants want a prompt's pages it is not read again without end.
TEST(Scarce, APromptIsReadAFewTimes) {
  EngineConfig config = kScarceConfig;
  config.prefix_cache = false;
  config.max_seqs = 32;
  for (const int others : {2, 6, 16}) {
    FairLoad load(config, kScarcePages, 1);
    const FairTenant giant = one_size("giant", 14'000, 5);
    const SeqId id = load.submit(giant);
    load.run(0.1);
    for (int i = 0; i < others; ++i) {
      load.tenants.push_back(one_size("o" + std::to_string(i), 15'000 / (others + 1), 5));
    }
    int64_t rows = 0;
    const double from = load.now();
    while (!load.first.contains(id) && load.now() < from + 300) {
      load.step();
    }
    int64_t made = 0;
    for (const auto& [name, n] : load.tokens) made += n;
    rows = load.model.rows - made;
    std::printf("reread: %d others: %.1f s, %ld taken, %ld preempted, %.2f times its rows\n", others, load.now() - from,
                static_cast<long>(load.core->stats().taken), static_cast<long>(load.core->stats().preempted),
                static_cast<double>(rows) / 14'000);
    EXPECT_LE(rows, 4 * 14'000);
  }
}

// A prompt that was set back late in its reading is safe until it has been read, and not for as long an answer.
TEST(Scarce, WhatWasReadAgainGivesWayOnceItAnswers) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  warm_up(load);
  const FairTenant giant = one_size("giant", 14'000, 1'900), half = one_size("", 7'000, 5);
  const SeqId id = load.submit(giant);
  load.run(0.9 * alone(giant));
  FairTenant newcomer = half;
  newcomer.name = "first";
  first_token(load, newcomer);
  while (!load.first.contains(id)) load.step();
  load.run(1);
  newcomer.name = "second";
  const double waited = first_token(load, newcomer);
  std::printf("read again: %ld taken, the second newcomer waits %.3f s, alone %.3f s\n",
              static_cast<long>(load.core->stats().taken), waited, alone(half));
  EXPECT_LE(waited, 1.2 * 2 * alone(half));
}

}  // namespace
}  // namespace ingot::sim
