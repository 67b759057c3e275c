// What becomes of the others while one waits for more pages than its tenant's share, and of that one.
#include <gtest/gtest.h>

#include <deque>
#include <set>

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

// Nor where few rows of prompts are read in a step beside them, and it has waited long for others that are read so: the
// time counts in which it gets no further.
TEST(Line, WhatIsReadSlowlyInItsTurnIsReadOnce) {
  for (const auto& [readers, rows] : std::vector<std::pair<int, int>>{{0, 15'200}, {2, 4000}}) {
    EngineConfig config = kScarceConfig;
    config.prefix_cache = false;
    config.gap_ms = 1;
    FairLoad load(config, kScarcePages, 1);
    for (int i = 0; i < 4; ++i) load.tenants.push_back(one_size("steady" + std::to_string(i), 20, 700 + 30 * i));
    for (int i = 0; i < readers; ++i) load.tenants.push_back(one_size("reader" + std::to_string(i), 6000, 10));
    load.run(3);
    load.tenants.push_back(one_size("large", rows, 5));
    std::map<SeqId, std::set<int64_t>> begun;
    while (load.now() < 60) {
      load.step();
      const Sequence* turn = load.core->scheduler().tenants().turn_of();
      if (turn && turn->running()) begun[turn->id].insert(turn->begun);
    }
    size_t most = 0;
    for (const auto& [id, times] : begun) most = std::max(most, times.size());
    std::printf("%zu have turns, and begin %zu times at most; %ld read\n", begun.size(), most,
                static_cast<long>(load.tokens["large"] / rows));
    EXPECT_GE(begun.size(), 3u) << readers;
    EXPECT_EQ(most, 1u) << readers;
  }
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

// What it was read the faster for the wait for its turn goes to what is read in that turn alone.
TEST(Line, ATurnThatIsTakenBackLeavesNothingToOthersOfItsTenant) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  warm_up(load);
  load.tenants = {one_size("steady", 20, 5000)};
  load.run(1);
  const FairTenant small = one_size("small", 200, 10);
  const SeqId large = load.submit(one_size("large", 15'900, 5));
  for (int i = 0; i < 3; ++i) load.submit(one_size("large", 4'000, 5));
  while (load.core->stats().taken == 0) load.step();
  load.step();
  load.cancel(large);
  load.model.longest_step = 0;
  load.step();
  const double waited = first_token(load, small);
  std::printf("%.3f s, alone %.3f\n", waited, alone(small));
  EXPECT_LE(waited, 1.2 * alone(small) * 3 + load.model.longest_step);
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

// Allows every token.
class AnyToken : public TokenConstraint {
 public:
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<AnyToken>(); }
  void mask(std::span<uint32_t> words) override { std::ranges::fill(words, ~0u); }
  void advance(int32_t) override {}
  void rollback(int) override {}
  bool complete() const override { return false; }
};

// Workers that take so long for each mask.
class SlowMasks : public MaskWorkers {
 public:
  explicit SlowMasks(double seconds) : ns_(static_cast<int64_t>(1e9 * seconds)) {}
  void serve(TimedModel& model) {
    now_ns_ = &model.now_ns;
    model.body_ends = [this] {
      while (!tasks_.empty() && tasks_.front().second <= *now_ns_) end_first();
      return true;
    };
  }
  void post(const std::shared_ptr<MaskTask>& task) override { tasks_.emplace_back(task, *now_ns_ + ns_); }
  void wait() override {
    *now_ns_ = std::max(*now_ns_, tasks_.front().second);
    end_first();
  }
  void drop(std::shared_ptr<const void>) override {}

 private:
  void end_first() {
    tasks_.front().first->run();
    tasks_.front().first->finish(1e-9 * static_cast<double>(ns_));
    tasks_.pop_front();
  }

  const int64_t ns_;
  int64_t* now_ns_ = nullptr;
  std::deque<std::pair<std::shared_ptr<MaskTask>, int64_t>> tasks_;
};

// An answer whose every token waits for a mask has its turn for no longer: beside others that go on, and alone.
TEST(Line, ATurnEndsThoughMasksAreSlow) {
  for (const bool beside : {true, false}) {
    SlowMasks masks(0.3);
    FairLoad load(kScarceConfig, kScarcePages, 1, &masks);
    masks.serve(load.model);
    FairTenant large = one_size("large", beside ? 15'000 : 15'900, 60);
    const double reads = alone(large);
    large.constraint = std::make_shared<AnyToken>();
    load.tenants = {one_size("steady", 20, beside ? 300 : 5000)};
    if (beside) load.tenants.push_back(one_size("other", 20, 310));
    load.run(3);
    load.tenants.push_back(large);
    Waits waits;
    for (int i = 0; load.now() < 60; ++i) waits.add(small_requests(load, one_size(std::to_string(i), 1000, 10), 0.1));
    std::printf("%d newcomers: at most %.3f s, mean %.3f s; %ld taken, a large one alone %.3f\n", waits.n,
                waits.longest, waits.mean(), static_cast<long>(load.core->stats().taken), reads);
    EXPECT_GE(load.core->stats().taken, 20) << beside;
    // Until it is read, and twice what four times a page takes; a step that nobody else is in waits for a mask.
    EXPECT_LE(waits.longest, 1.2 * reads + 2 * (4 * 32 * 100 * load.model.row_seconds + (beside ? 0 : 0.3))) << beside;
  }
}

// Nor is a long answer that was set back and is read again safe for as long as its next page takes so.
TEST(Line, WhatCameBackIsNotSafeForAsLongAsItsMasksTake) {
  SlowMasks masks(0.3);
  FairLoad load(kScarceConfig, kScarcePages, 1, &masks);
  masks.serve(load.model);
  warm_up(load);
  FairTenant giant = one_size("giant", 14'000, 1'900), half = one_size("first", 7'000, 5);
  const double reads = alone(giant), by_itself = alone(half);
  giant.constraint = std::make_shared<AnyToken>();
  load.tenants = {one_size("steady", 20, 300), one_size("other", 20, 310)};
  const SeqId id = load.submit(giant);
  while (!load.first.contains(id)) load.step();
  load.run(0.5);
  first_token(load, half);
  EXPECT_EQ(load.core->stats().taken, 1);
  const int64_t put_off = load.core->stats().put_off;
  while (load.core->stats().put_off == put_off) load.step();
  half.name = "second";
  const double waited = first_token(load, half);
  std::printf("the second newcomer waits %.3f s, alone %.3f s, giant %.3f\n", waited, by_itself, reads);
  EXPECT_LE(waited, 1.2 * 3 * by_itself + reads);
}

// But it gets its page where steps take long, as those of many seqs on a GPU do.
TEST(Line, WhatCameBackGetsItsPageInLongSteps) {
  FairLoad load(kScarceConfig, kScarcePages, 1);
  load.model.step_seconds = 0.05;
  warm_up(load);
  const FairTenant giant = one_size("giant", 14'000, 1'900);
  FairTenant half = one_size("first", 3'000, 5);
  load.tenants = {one_size("steady", 20, 300), one_size("other", 20, 310)};
  const SeqId id = load.submit(giant);
  while (!load.first.contains(id)) load.step();
  load.run(2.5);
  first_token(load, half);
  ASSERT_EQ(load.core->stats().taken, 1);
  const int64_t set_back = load.tokens["giant"];
  while (load.tokens["giant"] == set_back) load.step();
  const int64_t came_back = load.tokens["giant"];
  half.name = "second";
  load.submit(half);
  while (load.core->stats().taken == 1) load.step();
  std::printf("%ld tokens before it gives way again\n", static_cast<long>(load.tokens["giant"] - came_back));
  EXPECT_GE(load.tokens["giant"] - came_back, 30);  // of a page of 32
}

}  // namespace
}  // namespace ingot::sim
