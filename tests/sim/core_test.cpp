// The core with a scripted model: what each part of a request asks for, one at a time.
#include "engine/core.h"

#include <gtest/gtest.h>

#include <map>

#include "sim/core_fixture.h"
#include "sim/simulation.h"

namespace ingot::sim {
namespace {

TEST(Core, TokensAreThoseOfTheModelAlone) {
  Fixture f;
  std::map<SeqId, Request> requests;
  for (int i = 0; i < 9; ++i) {
    const Request r = f.request(tokens_of(i, 5 + 11 * i), 1 + 3 * i);
    requests[f.submit(r)] = r;
  }
  f.run();
  for (const auto& [id, r] : requests) EXPECT_EQ(f.made[id][0], f.expected(r));
}

TEST(Core, ASecondRequestTakesThePagesOfTheFirst) {
  Fixture f;
  const Request r = f.request(tokens_of(3, 42), 6);
  f.submit(r);
  f.run();
  const SeqId again = f.submit(r);
  f.run();
  EXPECT_EQ(f.reused[again], 40);
  EXPECT_EQ(f.made[again][0], f.expected(r));
  Request other = r;
  other.tenant = "other";
  const SeqId foreign = f.submit(other);
  f.run();
  EXPECT_EQ(f.reused[foreign], 0);
  for (const auto change : {0, 1}) {
    Request different = r;
    (change ? different.adapter : different.media) = "x";
    const SeqId id = f.submit(different);
    f.run();
    EXPECT_EQ(f.reused[id], 0);
  }
  EXPECT_GT(f.core->stats().reused_tokens, 0);
}

TEST(Core, ChoicesShareThePromptAndDiffer) {
  Fixture f;
  Request r = f.request(tokens_of(1, 30), 8);
  r.choices = 4;
  const SeqId id = f.submit(r);
  f.run();
  for (int c = 0; c < 4; ++c) EXPECT_EQ(f.made[id][c], f.expected(r, c)) << c;
  EXPECT_NE(f.made[id][0], f.made[id][1]);
  EXPECT_GT(f.model->copies, 0);
  // 30 rows of the prompt once, one row for each other choice, and what each made but the last.
  EXPECT_EQ(f.core->stats().rows, 30 + 3 + 4 * 7);
}

// A cache for exactly so many whole seqs serves so many at once.
TEST(Core, AllSeqsRunWhereAllFit) {
  Fixture f([](Fixture& x) { x.shape.groups = {{.pages = 4 * 12}}; });
  for (int i = 0; i < 4; ++i) f.submit(f.request(tokens_of(i, 24), 24));
  int most = 0;
  while (!f.core->idle()) {
    f.step();
    most = std::max(most, f.core->stats().running);
  }
  EXPECT_EQ(most, 4);
  EXPECT_EQ(f.core->stats().preempted, 0);
}

class Odd : public TokenConstraint {
 public:
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Odd>(*this); }
  void mask(std::span<uint32_t> words) override {
    for (uint32_t& word : words) word &= made_ % 2 ? 0xAAAAAAAAu : 0x55555555u;
  }
  void advance(int32_t) override { ++made_; }
  void rollback(int n) override { made_ -= n; }
  bool complete() const override { return made_ >= 12; }

 private:
  int made_ = 0;
};

class Oracle : public Drafter {
 public:
  Oracle(size_t prompt, std::vector<int32_t> answer, int wrong_every)
      : prompt_(prompt), answer_(std::move(answer)), wrong_every_(wrong_every) {}
  void propose(std::span<const int32_t> tokens, int max, std::vector<int32_t>& draft) override {
    for (size_t i = tokens.size() - prompt_; i < answer_.size() && static_cast<int>(draft.size()) < max; ++i) {
      draft.push_back(++n_ % wrong_every_ == 0 ? (answer_[i] + 1) % 50 : answer_[i]);
    }
  }

 private:
  const size_t prompt_;
  const std::vector<int32_t> answer_;
  const int wrong_every_;
  int n_ = 0;
};

TEST(Core, AConstraintIsKeptAndEndsTheAnswer) {
  Fixture f;
  Request r = f.request(tokens_of(5, 9), 40);
  r.constraint = std::make_shared<Odd>();
  const SeqId id = f.submit(r);
  f.run();
  const std::vector<int32_t>& made = f.made[id][0];
  ASSERT_EQ(made.size(), 12u);
  EXPECT_EQ(f.finish[id], FinishReason::kStop);
  for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(made[i] % 2, static_cast<int32_t>(i % 2));
}

// Guesses change how many steps it takes and nothing else: with and without a constraint, pages, windows and state.
TEST(Core, DraftsNeverChangeAnAnswer) {
  for (const int kind : {0, 1, 2, 3}) {
    Fixture f([&](Fixture& x) {
      x.config.max_draft = 4;
      if (kind == 1) x.shape.groups.push_back({.pages = 200, .window = 6});
      if (kind == 2) x.shape.has_state = true, x.options.snapshots = 3;
    });
    Request r = f.request(tokens_of(8, 21), 60);
    if (kind == 3) r.constraint = std::make_shared<Odd>();
    const SeqId plain = f.submit(r);
    f.run();
    const int64_t steps = f.core->stats().steps;
    if (kind == 3) r.constraint = std::make_shared<Odd>();
    r.drafter = std::make_shared<Oracle>(r.prompt.size(), f.made[plain][0], 5);
    const SeqId drafted = f.submit(r);
    f.run();
    EXPECT_EQ(f.made[drafted][0], f.made[plain][0]) << kind;
    const EngineStats stats = f.core->stats();
    EXPECT_GT(stats.accepted, 0) << kind;
    EXPECT_LT(stats.accepted, stats.drafted) << kind;
    EXPECT_LT((stats.steps - steps) * 2, steps) << kind;
  }
}

TEST(Core, StateComesBackFromASnapshot) {
  Fixture f([](Fixture& x) { x.shape.has_state = true, x.options.snapshots = 4; });
  const Request r = f.request(tokens_of(2, 70), 9);
  const SeqId first = f.submit(r);
  f.run();
  EXPECT_EQ(f.made[first][0], f.expected(r));
  Request longer = r;
  longer.prompt.push_back(11);
  const SeqId second = f.submit(longer);
  f.run();
  EXPECT_EQ(f.made[second][0], f.expected(longer));
  EXPECT_EQ(f.reused[second], 68);
}

// Where steps are launched ahead its next row is under way by then, and comes to nothing.
TEST(Core, OnlyTheOneWithBrokenLogitsEnds) {
  for (const bool ahead : {false, true}) {
    SCOPED_TRACE(ahead);
    Fixture f([&](Fixture& x) { x.ahead = ahead; });
    f.model->is_nan = [](const SampleRow& row) { return row.params->seed == 13 && row.position > 12; };
    Request bad = f.request(tokens_of(1, 10), 20), good = f.request(tokens_of(2, 10), 20);
    bad.sampling.seed = 13;
    const SeqId b = f.submit(bad), g = f.submit(good);
    f.run();
    EXPECT_EQ(f.finish[b], FinishReason::kError);
    EXPECT_EQ(f.made[b][0].size(), 3u);
    EXPECT_EQ(f.made[g][0], f.expected(good));
    EXPECT_EQ(f.core->stats().errors, 1);
    EXPECT_EQ(f.core->stats().orphans > 0, ahead);
  }
}

// Whatever a request brings with it may throw.
TEST(Core, OnlyTheOneWhosePartThrowsEnds) {
  struct Thrower : TokenConstraint {
    int at = 0, n = 0;
    std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Thrower>(*this); }
    void hit(int where) const {
      if (at == where && n > 3) throw std::runtime_error("constraint");
    }
    void mask(std::span<uint32_t>) override { hit(0); }
    void advance(int32_t) override {
      hit(1);
      ++n;
    }
    void rollback(int) override {}
  };
  struct BadDrafter : Drafter {
    void propose(std::span<const int32_t>, int, std::vector<int32_t>&) override { throw 1; }
  };
  for (const int where : {0, 1, 2, 3, 4}) {
    Fixture f([](Fixture& x) {
      x.config.max_draft = 2;
      x.options.has_hidden = true;
    });
    Request bad = f.request(tokens_of(1, 10), 20);
    const Request good = f.request(tokens_of(2, 10), 20);
    if (where < 2) {
      auto thrower = std::make_shared<Thrower>();
      thrower->at = where;
      bad.constraint = thrower;
    } else if (where == 2) {
      bad.drafter = std::make_shared<BadDrafter>();
    } else {
      (where == 3 ? bad.on_logits : bad.on_hidden) = [](int position, std::span<const float>) {
        if (position == 11) throw std::runtime_error("callback");
      };
    }
    const SeqId b = f.submit(bad), g = f.submit(good);
    f.run();
    EXPECT_EQ(f.finish[b], FinishReason::kError) << where;
    EXPECT_EQ(f.made[g][0], f.expected(good)) << where;
  }
}

TEST(Core, AFailedStepIsRepeatedAndTheCauseFound) {
  Fixture f;
  int fails = 1;
  f.model->on_step = [&](const StepWork& work) {
    if (f.model->launched == 5 && fails-- > 0) throw std::runtime_error("once");
    for (const SampleRow& row : work.samples) {
      if (row.params->seed == 66 && row.position > 14) throw std::runtime_error("always");
    }
  };
  std::map<SeqId, Request> requests;
  for (int i = 0; i < 4; ++i) {
    Request r = f.request(tokens_of(i, 10), 12);
    r.sampling.seed = i == 2 ? 66 : 0;
    requests[f.submit(r)] = r;
  }
  f.run();
  for (const auto& [id, r] : requests) {
    if (r.sampling.seed == 66) {
      EXPECT_EQ(f.finish[id], FinishReason::kError);
    } else {
      EXPECT_EQ(f.made[id][0], f.expected(r));
    }
  }
  EXPECT_GE(f.core->stats().failed_steps, 3);
}

TEST(Core, QueueAndDeadlines) {
  Fixture f([](Fixture& x) { x.config.max_seqs = 1, x.config.max_waiting = 3; });
  f.submit(f.request(tokens_of(0, 4), 100));
  f.step();
  Request hasty = f.request(tokens_of(1, 4), 5);
  hasty.queue_seconds = 0.02;
  const SeqId late = f.submit(hasty);
  const SeqId patient = f.submit(f.request(tokens_of(2, 4), 5));
  f.submit(f.request(tokens_of(2, 4), 5));
  EXPECT_TRUE(f.core->submit(f.request(tokens_of(3, 4), 5)).busy);
  f.run();
  EXPECT_EQ(f.finish[late], FinishReason::kDeadline);
  EXPECT_TRUE(f.made[late].empty());
  EXPECT_EQ(f.finish[patient], FinishReason::kLength);
  EXPECT_EQ(f.core->stats().expired, 1);
}

TEST(Core, RefusesAtOnceWhatCanNeverBeServed) {
  Fixture f([](Fixture& x) { x.shape.groups[0].pages = 10; });
  const auto refused = [&](const std::function<void(Request&)>& change) {
    Request r = f.request(tokens_of(0, 4), 5);
    change(r);
    return f.core->submit(r).refused;
  };
  EXPECT_EQ(refused([](Request&) {}), "");
  EXPECT_EQ(refused([](Request& r) { r.max_tokens = 40; }), "44 tokens need more pages than the KV cache has");
  EXPECT_EQ(refused([](Request& r) { r.choices = 0; }), "0 choices, expected 1 to 128");
  EXPECT_EQ(refused([](Request& r) { r.priority = 101; }), "priority is 101, expected -100 to 100");
  EXPECT_NE(refused([](Request& r) { r.queue_seconds = -1; }), "");
  EXPECT_NE(refused([](Request& r) { r.min_tokens = -1; }), "");
  EXPECT_EQ(refused([](Request& r) { r.on_hidden = [](int, std::span<const float>) {}; }),
            "the model does not keep its hidden state");
  EXPECT_EQ(f.core->stats().refused, 6);
}

TEST(Core, EndTokensWaitForMinTokens) {
  Fixture f;
  Request r = f.request(tokens_of(0, 4), 30);
  for (int t = 0; t < 50; t += 2) r.end_tokens.push_back(t);
  r.min_tokens = 9;
  const SeqId id = f.submit(r);
  f.run();
  EXPECT_GE(f.made[id][0].size(), 10u);
  EXPECT_EQ(f.made[id][0], f.expected(r));
}

}  // namespace
}  // namespace ingot::sim
