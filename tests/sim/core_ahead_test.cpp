// The core with a scripted model that lets a step be launched before the one in front has ended.
#include <gtest/gtest.h>

#include "sim/core_fixture.h"

namespace ingot::sim {
namespace {

void ahead(Fixture& f) { f.ahead = true; }

// Requests that end in different ways and at different times, in a cache so small that some are set back.
std::vector<Request> many_requests(const Fixture& f) {
  std::vector<Request> all;
  for (int i = 0; i < 14; ++i) {
    Request r = f.request(tokens_of(i % 5, 3 + 4 * i), i % 4 == 3 ? -1 : 1 + 5 * i);
    r.sampling.seed = static_cast<uint64_t>(i);
    if (i % 3 == 0) r.end_tokens = {i, 2 * i + 1, 30};
    if (i % 6 == 0) r.min_tokens = 7;
    if (i % 5 == 0) r.choices = 3;
    if (i % 7 == 0) r.sampling.logit_bias = {{3, 1.0f}};
    if (i == 4) r.sampling.frequency_penalty = 0.5f;
    all.push_back(std::move(r));
  }
  return all;
}

TEST(CoreAhead, AnswersAreThoseOfOneStepAfterAnother) {
  const auto answers = [](bool runs_ahead, int64_t& ran) {
    Fixture f([&](Fixture& x) {
      x.ahead = runs_ahead;
      x.shape.groups = {{.pages = 60}, {.pages = 40, .window = 9}};
      x.options.context = 100;
    });
    for (const Request& r : many_requests(f)) f.submit(r);
    f.run();
    ran = f.core->stats().ahead;
    EXPECT_GT(f.core->stats().preempted, 0);
    return std::pair(f.made, f.finish);
  };
  int64_t never = 0, often = 0;
  EXPECT_EQ(answers(true, often), answers(false, never));
  EXPECT_EQ(never, 0);
  EXPECT_GT(often, 20);
}

// The end of an answer by its length is known before: no row too many. Each of the other steps is launched ahead.
TEST(CoreAhead, ALengthLeavesNoOrphan) {
  Fixture f(ahead);
  const Request r = f.request(tokens_of(2, 10), 20);
  const SeqId id = f.submit(r);
  f.run();
  EXPECT_EQ(f.made[id][0], f.expected(r));
  const EngineStats stats = f.core->stats();
  EXPECT_EQ(stats.orphans, 0);
  EXPECT_EQ(stats.steps, 20);
  EXPECT_EQ(stats.ahead, 19);
  EXPECT_EQ(stats.rows, 10 + 19);
}

TEST(CoreAhead, AnEndTokenLeavesOneOrphanThatIsCollectedBeforeTheCoreIsIdle) {
  Fixture f(ahead);
  Request r = f.request(tokens_of(2, 10), 20);
  const std::vector<int32_t> all = f.expected(r);
  r.end_tokens = {all[7]};
  const auto end = static_cast<size_t>(std::ranges::find(all, all[7]) - all.begin());
  const SeqId id = f.submit(r);
  while (!f.finish.contains(id)) f.step();
  EXPECT_EQ(f.finish[id], FinishReason::kStop);
  EXPECT_EQ(f.made[id][0].size(), end + 1);
  EXPECT_TRUE(f.core->flying());
  EXPECT_FALSE(f.core->idle());
  EXPECT_EQ(f.core->pages().available(0), f.core->pages().total_pages(0));
  EXPECT_TRUE(f.core->step().empty());
  EXPECT_TRUE(f.core->idle());
  EXPECT_EQ(f.core->stats().orphans, 1);
}

// Pages that an orphan's row is still written to go to the next request, which is in the step behind.
TEST(CoreAhead, ACancelWhileItsRowIsUnderWay) {
  Fixture f([](Fixture& x) {
    x.ahead = true;
    x.shape.groups[0].pages = 12;
    x.options.context = 40;
  });
  const SeqId gone = f.submit(f.request(tokens_of(1, 9), 30));
  const Request other = f.request(tokens_of(3, 10), 25);
  for (int i = 0; i < 4; ++i) f.step();
  ASSERT_TRUE(f.core->flying());
  const size_t made = f.made[gone][0].size();
  EXPECT_TRUE(f.core->cancel(gone));
  EXPECT_FALSE(f.core->cancel(gone));
  const SeqId id = f.submit(other);
  f.run();
  EXPECT_EQ(f.made[gone][0].size(), made);
  EXPECT_EQ(f.made[id][0], f.expected(other));
  EXPECT_EQ(f.core->stats().orphans, 1);
}

// Whether the step in front fails or the one behind: all are computed again, and pages of rows that were never
// collected are not found by anyone.
TEST(CoreAhead, AFailedStepIsRepeated) {
  for (int fails = 1; fails < 16; ++fails) {
    Fixture f(ahead);
    int n = 0;
    f.model->on_step = [&](const StepWork&) {
      if (++n == fails) throw std::runtime_error("once");
    };
    std::map<SeqId, Request> requests;
    for (int i = 0; i < 3; ++i) {
      Request r = f.request(tokens_of(7, 10 + i), 14);
      r.sampling.seed = static_cast<uint64_t>(i);
      requests[f.submit(r)] = r;
    }
    f.run();
    for (const auto& [id, r] : requests) {
      EXPECT_EQ(f.made[id][0], f.expected(r)) << fails;
      Request longer = r;  // reads what is in the cache
      for (const int32_t token : f.made[id][0]) longer.prompt.push_back(token);
      const SeqId again = f.submit(longer);
      f.run();
      EXPECT_EQ(f.made[again][0], f.expected(longer)) << fails;
    }
    EXPECT_EQ(f.core->stats().failed_steps, 1) << fails;
    EXPECT_EQ(f.core->stats().errors, 0) << fails;
  }
}

TEST(CoreAhead, DamagedFilesEndAll) {
  Fixture f(ahead);
  const SeqId id = f.submit(f.request(tokens_of(2, 10), 40));
  for (int i = 0; i < 3; ++i) f.step();
  f.core->damaged = [] { return true; };
  f.run();
  EXPECT_EQ(f.finish[id], FinishReason::kDamaged);
  EXPECT_EQ(f.core->stats().orphans, 0);  // nothing of the last step was looked at
}

struct Anything : TokenConstraint {
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Anything>(*this); }
  void mask(std::span<uint32_t>) override {}
  void advance(int32_t) override {}
  void rollback(int) override {}
};
struct NoGuess : Drafter {
  void propose(std::span<const int32_t>, int, std::vector<int32_t>&) override {}
};
struct SomeGuess : Drafter {
  void propose(std::span<const int32_t>, int, std::vector<int32_t>& out) override { out = {5}; }
};

// What reads more of the tokens before than the last one's id has to wait for them.
TEST(CoreAhead, OnlyWhereTheHostIsNotNeeded) {
  const std::pair<bool, std::function<void(Request&)>> kinds[] = {
      {true, [](Request&) {}},
      {true,
       [](Request& r) {
         r.sampling.logit_bias = {{4, 2.0f}};
       }},
      {true,
       [](Request& r) {
         r.end_tokens = {1, 2, 3}, r.min_tokens = 15;
       }},
      {true, [](Request& r) { r.sampling.top_p = 0.9f, r.sampling.n_logprobs = 3; }},
      {false, [](Request& r) { r.sampling.repetition_penalty = 1.2f; }},
      {false, [](Request& r) { r.sampling.presence_penalty = 0.1f; }},
      {false, [](Request& r) { r.sampling.frequency_penalty = 0.1f; }},
      {false, [](Request& r) { r.sampling.dry_multiplier = 0.8f; }},
      {true, [](Request& r) { r.constraint = std::make_shared<Anything>(); }},  // its masks come to the draw
      {false, [](Request& r) { r.drafter = std::make_shared<NoGuess>(); }},
      {false, [](Request& r) { r.drafter = std::make_shared<SomeGuess>(); }},
      {false, [](Request& r) { r.on_logits = [](int, std::span<const float>) {}; }},
      {false, [](Request& r) { r.on_hidden = [](int, std::span<const float>) {}; }},
  };
  for (size_t k = 0; k < std::size(kinds); ++k) {
    Fixture f([](Fixture& x) {
      x.ahead = true;
      x.options.has_hidden = true;
      x.config.max_draft = 2;
    });
    Request r = f.request(tokens_of(2, 10), 12), plain = f.request(tokens_of(4, 10), 12);
    kinds[k].second(r);
    const SeqId id = f.submit(r), other = f.submit(plain);
    f.run();
    EXPECT_EQ(f.core->stats().ahead > 0, kinds[k].first) << k;
    EXPECT_EQ(f.made[id][0], f.expected(r)) << k;
    EXPECT_EQ(f.made[other][0], f.expected(plain)) << k;
  }
}

TEST(CoreAhead, NotWithRecurrentState) {
  Fixture f([](Fixture& x) { x.ahead = x.shape.has_state = true; });
  const Request r = f.request(tokens_of(2, 10), 12);
  const SeqId id = f.submit(r);
  f.run();
  EXPECT_EQ(f.core->stats().ahead, 0);
  EXPECT_EQ(f.made[id][0], f.expected(r));
}

// One run of the head has four logit rows here, and a second run would read what the next step overwrites.
TEST(CoreAhead, NotWithMoreLogitRowsThanTheHeadHas) {
  Fixture f([](Fixture& x) {
    x.ahead = true;
    x.config.max_seqs = 6;
  });
  std::map<SeqId, Request> requests;
  for (int i = 0; i < 6; ++i) {
    const Request r = f.request(tokens_of(i, 4), i < 2 ? 10 : 30);
    requests[f.submit(r)] = r;
  }
  while (f.core->stats().running > 4 || f.core->stats().steps == 0) {
    f.step();
    EXPECT_FALSE(f.core->stats().running > 4 && f.core->flying());
  }
  f.run();
  EXPECT_GT(f.core->stats().ahead, 0);
  for (const auto& [id, r] : requests) EXPECT_EQ(f.made[id][0], f.expected(r));
}

// Who comes while two steps are under way is in the third.
TEST(CoreAhead, AnArrivalWaitsOneStepMore) {
  Fixture f(ahead);
  f.submit(f.request(tokens_of(2, 10), 60));
  for (int i = 0; i < 5; ++i) f.step();
  ASSERT_TRUE(f.core->flying());
  const Request late = f.request(tokens_of(3, 10), 5);
  const SeqId id = f.submit(late);
  f.step();
  EXPECT_TRUE(f.made[id].empty());
  f.step();
  EXPECT_EQ(f.made[id][0].size(), 1u);
  f.run();
  EXPECT_EQ(f.made[id][0], f.expected(late));
}

TEST(CoreAhead, LandsWhereItIsAskedTo) {
  Fixture f(ahead);
  const Request r = f.request(tokens_of(2, 10), 30);
  const SeqId id = f.submit(r);
  for (int i = 0; i < 5; ++i) f.step();
  ASSERT_TRUE(f.core->flying());
  f.core->run_ahead = false;
  f.step();
  EXPECT_FALSE(f.core->flying());
  f.step();
  EXPECT_FALSE(f.core->flying());
  f.core->run_ahead = true;
  f.step();
  EXPECT_TRUE(f.core->flying());
  f.run();
  EXPECT_EQ(f.made[id][0], f.expected(r));
}

// The model's destructor looks whether every step was waited for.
TEST(CoreAhead, EndsWithAStepUnderWay) {
  Fixture f(ahead);
  f.submit(f.request(tokens_of(2, 10), 30));
  for (int i = 0; i < 5; ++i) f.step();
  EXPECT_TRUE(f.core->flying());
}

// A step's time is its own, though it was launched while the one in front ran.
TEST(CoreAhead, StepsAreTimedOneByOne) {
  Fixture f(ahead);
  int n = 0;
  f.model->on_step = [&](const StepWork&) { f.now_ns += 1'000'000 * ++n; };
  f.submit(f.request(tokens_of(2, 10), 12));
  double all = 0;
  while (!f.core->idle()) {
    f.core->step();
    EXPECT_NEAR(f.core->last_step().seconds, 1e-3 * n, 1e-9);
    all += 1e-3 * n;
  }
  EXPECT_EQ(n, 12);
  EXPECT_NEAR(f.core->stats().busy_seconds, all, 1e-9);
}

}  // namespace
}  // namespace ingot::sim
