// How the masks of constraints come to steps: beside the engine's thread, never an answer's tokens but in its time, and
// nobody waits for another's.
#include <gtest/gtest.h>

#include <random>

#include "sim/core_fixture.h"

namespace ingot::sim {
namespace {

// Of a vocabulary of 50 the tokens that are the number of tokens before modulo 3; after each multiple of 5 it forces
// the next five numbers, which it proposes.
class Forcing : public TokenConstraint {
 public:
  explicit Forcing(bool forces = true, size_t length = 1000) : forces_(forces), length_(length) {}
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Forcing>(*this); }
  void mask(std::span<uint32_t> words) override {
    std::ranges::fill(words, 0);
    const auto allow = [&](int32_t t) { words[static_cast<size_t>(t) / 32] |= 1u << (t % 32); };
    if (const int32_t only = forced(); only >= 0) return allow(only);
    for (int32_t t = static_cast<int32_t>(made_.size() % 3); t < 50; t += 3) allow(t);
  }
  void advance(int32_t token) override { made_.push_back(token); }
  void rollback(int n) override { made_.resize(made_.size() - static_cast<size_t>(n)); }
  bool complete() const override { return made_.size() >= length_; }
  bool proposes() const override { return forces_; }
  void propose(int max, std::vector<int32_t>& draft) override {
    const size_t before = made_.size();
    for (int32_t next = forced(); next >= 0 && static_cast<int>(draft.size()) < max; next = forced()) {
      draft.push_back(next);
      made_.push_back(next);
    }
    made_.resize(before);
  }

 private:
  int32_t forced() const {
    for (size_t k = 1; forces_ && k <= std::min<size_t>(5, made_.size()); ++k) {
      const int32_t token = made_[made_.size() - k];
      if (token % 5 == 0) return (token + (k < 5 ? static_cast<int32_t>(k) : 6)) % 50;
    }
    return -1;
  }
  bool forces_;
  size_t length_;
  std::vector<int32_t> made_;
};

std::vector<int32_t> alone(const Fixture& f, const Request& r, bool forces = true, int choice = 0) {
  Forcing plain(forces);
  return expected_tokens(f.shape, r, choice, f.options.context, {}, r.constraint ? &plain : nullptr);
}

void with_workers(Fixture& f) { f.options.masks = &f.workers; }

// The next step's rows run while the masks of its tokens are made.
TEST(Masks, RunAheadGoesOn) {
  Fixture f([](Fixture& x) {
    x.ahead = true;
    with_workers(x);
  });
  std::map<SeqId, Request> requests;
  for (int i = 0; i < 4; ++i) {
    Request r = f.request(tokens_of(i, 8), 40);
    if (i < 3) r.constraint = std::make_shared<Forcing>(false);
    requests[f.submit(r)] = r;
  }
  f.run();
  for (const auto& [id, r] : requests) EXPECT_EQ(f.made[id][0], alone(f, r, false));
  const EngineStats stats = f.core->stats();
  EXPECT_EQ(stats.put_off, 0);
  EXPECT_EQ(stats.ahead, stats.steps - 1);
  EXPECT_GT(f.model->drawn_later, 30);
  EXPECT_EQ(f.workers.posted, 3 * 40);  // one for each token, none for the free seq
}

// Its third mask cannot be made.
class Failing : public Forcing {
 public:
  Failing() : Forcing(false) {}
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Failing>(*this); }
  void mask(std::span<uint32_t> words) override {
    if (++masks_ == 3) throw std::runtime_error("no mask");
    Forcing::mask(words);
  }

 private:
  int masks_ = 0;
};

// A seq that ends while its step runs, since its mask cannot be made: the step reports to it all the same.
TEST(Masks, WhatAStepReportsToLivesUntilItHasEnded) {
  Fixture f(with_workers);
  std::weak_ptr<int> alive;
  bool lived = true;
  f.model->on_step = [&](const StepWork& work) {
    for (const LogitRow& row : work.logits) lived = lived && (!row.on_logits || !alive.expired());
  };
  SeqId id = 0;
  {
    auto reports = std::make_shared<int>(0);
    alive = reports;
    Request r = f.request(tokens_of(0, 8), 20);
    r.on_logits = [reports](int, std::span<const float>) { ++*reports; };
    r.constraint = std::make_shared<Failing>();
    id = f.submit(r);
  }
  f.run();
  EXPECT_EQ(f.finish[id], FinishReason::kError);
  EXPECT_TRUE(lived);
  EXPECT_TRUE(alive.expired());
}

// Counts those that are alive.
class Counted : public Forcing {
 public:
  explicit Counted(int& alive) : Forcing(false), alive_(&alive) { ++*alive_; }
  Counted(const Counted& other) : Forcing(other), alive_(other.alive_) { ++*alive_; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() override { --*alive_; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Counted>(*this); }

 private:
  int* alive_;
};

// A large grammar is not freed by the engine's thread: the workers have the last of it, however the seq ends.
TEST(Masks, WorkersLetGoOfWhatASeqLeaves) {
  int alive = 0;
  Fixture f([](Fixture& x) {
    with_workers(x);
    x.workers.keeps_dropped = true;
  });
  const auto come = [&] {
    Request r = f.request(tokens_of(1, 8), 5);
    r.constraint = std::make_shared<Counted>(alive);
    r.choices = 2;
    const Submitted submitted = f.core->submit(std::move(r));
    EXPECT_GE(submitted.id, 0);
    return submitted.id;
  };
  come();
  f.run();
  EXPECT_EQ(alive, 3);  // its own, and one of each choice
  f.workers.dropped.clear();
  EXPECT_EQ(alive, 0);
  // One that goes while its mask is made.
  f.workers.at_once = [] { return false; };
  f.workers.which = [](size_t n) { return n; };
  f.model->body_ends = [] { return true; };
  const SeqId id = come();
  Request free = f.request(tokens_of(2, 9), 60);
  f.submit(free);
  for (int i = 0; i < 5; ++i) f.step();
  EXPECT_GT(f.workers.waiting(), 0u);
  EXPECT_TRUE(f.core->cancel(id));
  f.workers.which = [](size_t) { return size_t{0}; };
  while (f.workers.waiting() > 0) f.workers.wait();
  f.run();
  EXPECT_EQ(alive, 3);
  f.workers.dropped.clear();
  EXPECT_EQ(alive, 0);
}

// Its tokens come later and are the same; the others make one in every step.
TEST(Masks, OneThatIsLateIsDrawnInALaterStepAndNobodyWaits) {
  for (const bool ahead : {false, true}) {
    Fixture f([&](Fixture& x) {
      x.ahead = ahead;
      with_workers(x);
    });
    int turn = 0;
    f.model->body_ends = [] { return true; };
    f.workers.at_once = [&] { return ++turn % 4 == 0; };
    // What waits is done once the step has ended.
    f.model->on_step = [&](const StepWork&) {
      if (f.workers.waiting() > 0 && ++turn % 3 == 0) f.workers.wait();
    };
    Request slow = f.request(tokens_of(1, 9), 30), free = f.request(tokens_of(2, 9), 60);
    slow.constraint = std::make_shared<Forcing>(false);
    const SeqId id = f.submit(slow), other = f.submit(free);
    f.step();  // on a GPU the first tokens come with the step after
    f.step();
    size_t before = f.made[other][0].size();
    while (before < 60) {
      f.step();
      ASSERT_EQ(f.made[other][0].size(), before + 1) << ahead;
      before = f.made[other][0].size();
    }
    f.run();
    EXPECT_EQ(f.made[id][0], alone(f, slow, false)) << ahead;
    EXPECT_EQ(f.made[other][0], f.expected(free)) << ahead;
    EXPECT_GT(f.core->stats().put_off, 10) << ahead;
  }
}

// Where nobody could go on without it the model waits: a row is not run again for nothing.
TEST(Masks, AloneItIsWaitedFor) {
  Fixture f(with_workers);
  f.model->body_ends = [] { return true; };
  Request r = f.request(tokens_of(1, 9), 30);
  r.constraint = std::make_shared<Forcing>(false);
  const SeqId id = f.submit(r);
  f.run();
  EXPECT_EQ(f.made[id][0], alone(f, r, false));
  EXPECT_EQ(f.core->stats().put_off, 0);
  EXPECT_EQ(f.core->stats().rows, 9 + 29);
}

// Text that must come is verified several tokens at a time: fewer steps, the same tokens; with run-ahead as without.
TEST(Masks, ForcedTextTakesFewerStepsAndChangesNothing) {
  for (const bool ahead : {false, true}) {
    int64_t steps[2] = {};
    for (const int draft : {0, 8}) {
      Fixture f([&](Fixture& x) {
        x.ahead = ahead;
        x.config.max_draft = draft;
        with_workers(x);
      });
      Request r = f.request(tokens_of(3, 9), 120);
      r.constraint = std::make_shared<Forcing>();
      r.choices = 2;
      const SeqId id = f.submit(r);
      f.run();
      for (int c = 0; c < 2; ++c) EXPECT_EQ(f.made[id][c], alone(f, r, true, c)) << ahead << draft;
      steps[draft > 0] = f.core->stats().steps;
      EXPECT_EQ(f.core->stats().accepted > 20, draft > 0);
      if (ahead && draft > 0) {
        EXPECT_GT(f.model->guessed_ahead, 0);
        EXPECT_GT(f.core->stats().ahead, 10);
      }
    }
    EXPECT_LT(static_cast<double>(steps[1]), 0.8 * static_cast<double>(steps[0])) << ahead;
  }
}

// Cold or warm, alone or batched, with guesses or without, masks in time or late, set back or not: one text.
TEST(Masks, TheSameSeedGivesTheSameText) {
  std::vector<std::vector<int32_t>> texts;
  for (uint64_t kind = 0; kind < 64; ++kind) {
    std::mt19937_64 random(kind);
    Fixture f([&](Fixture& x) {
      x.ahead = kind % 2 == 0;
      x.config.max_draft = kind % 4 < 2 ? 0 : 5;
      x.shape.groups = {{.pages = kind % 8 < 4 ? 200 : 24}};
      x.options.context = 80;
      if (kind % 16 >= 8) with_workers(x);
    });
    f.model->body_ends = [&] { return random() % 2 == 0; };
    f.workers.at_once = [&] { return random() % 2 == 0; };
    f.workers.which = [&](size_t n) { return n == 0 ? 0 : random() % (n + 1); };
    Request r = f.request(tokens_of(4, 20), 50);
    r.sampling.seed = 5;
    r.min_tokens = 9;
    r.end_tokens = {1, 2};
    r.constraint = std::make_shared<Forcing>();
    std::vector<SeqId> mates;
    for (int i = 0; i < static_cast<int>(kind / 16); ++i) {
      Request mate = f.request(tokens_of(i, 10 + i), 40);
      if (i % 2 == 0) mate.constraint = std::make_shared<Forcing>(i % 4 == 0);
      f.submit(mate);
    }
    SeqId id = f.submit(r);
    f.run();
    texts.push_back(f.made[id][0]);
    id = f.submit(r);  // its prompt is in the cache
    f.run();
    texts.push_back(f.made[id][0]);
    EXPECT_EQ(texts.back(), alone(f, r)) << kind;
  }
  for (const auto& text : texts) EXPECT_EQ(text, texts[0]);
}

// A seq may go while a worker has its constraint.
TEST(Masks, ACancelWhileAMaskIsMade) {
  for (const bool ahead : {false, true}) {
    Fixture f([&](Fixture& x) {
      x.ahead = ahead;
      with_workers(x);
    });
    f.model->body_ends = [] { return true; };
    f.workers.which = [](size_t n) { return n; };
    Request r = f.request(tokens_of(1, 9), 30), free = f.request(tokens_of(2, 9), 30);
    r.constraint = std::make_shared<Forcing>();
    const SeqId id = f.submit(r), other = f.submit(free);
    for (int i = 0; i < 4; ++i) f.step();
    ASSERT_GT(f.workers.waiting(), 0u);
    EXPECT_TRUE(f.core->cancel(id));
    f.workers.which = [](size_t) { return size_t{0}; };
    while (f.workers.waiting() > 0) f.workers.wait();
    f.run();
    EXPECT_EQ(f.made[other][0], f.expected(free));
  }
}

// What a constraint throws on a worker ends its own request, and tells why.
TEST(Masks, AnErrorOfAWorkerEndsItsOwnRequest) {
  struct Throwing : Forcing {
    int left = 6;
    std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Throwing>(*this); }
    void mask(std::span<uint32_t> words) override {
      if (--left == 0) throw ConstraintError("too much work");
      Forcing::mask(words);
    }
  };
  for (const bool ahead : {false, true}) {
    Fixture f([&](Fixture& x) {
      x.ahead = ahead;
      with_workers(x);
    });
    Request bad = f.request(tokens_of(1, 9), 30), good = f.request(tokens_of(2, 9), 30);
    bad.constraint = std::make_shared<Throwing>();
    const SeqId id = f.submit(bad), other = f.submit(good);
    std::string reason;
    while (!f.core->idle()) {
      for (const Event& event : f.core->step()) {
        if (event.request == other && event.sample.token >= 0) f.made[other][0].push_back(event.sample.token);
        if (event.request == id && event.finish != FinishReason::kNone) {
          EXPECT_EQ(event.finish, FinishReason::kConstraint);
          reason = event.reason;
        }
      }
    }
    EXPECT_EQ(reason, "too much work");
    EXPECT_EQ(f.made[other][0], f.expected(good));
  }
}

// Takes its time on the engine's thread, too.
class Slow : public Forcing {
 public:
  Slow(int64_t* now_ns, int64_t ns) : Forcing(false), now_ns_(now_ns), ns_(ns) {}
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Slow>(*this); }
  void advance(int32_t token) override {
    *now_ns_ += ns_;
    Forcing::advance(token);
  }

 private:
  int64_t* now_ns_;
  int64_t ns_;
};

// Work for masks counts as rows do, and so does what a constraint does with a token: who lets others compute it gets as
// many tokens less.
TEST(Masks, ATenantPaysForItsMasks) {
  const auto tokens_of_b = [](double seconds, double on_engine = 0) {
    Fixture f([](Fixture& x) {
      x.config.max_seqs = 1;
      x.shape.groups = {{.pages = 2000}};
      with_workers(x);
    });
    f.workers.at_once = [] { return true; };
    f.workers.seconds = [=] { return seconds; };
    f.model->on_step = [&](const StepWork&) { f.now_ns += 1'000'000; };
    std::map<SeqId, char> of;
    for (int i = 0; i < 400; ++i) {
      Request r = f.request(tokens_of(i, 4), 8);
      r.tenant = i % 2 ? "b" : "a";
      if (r.tenant == "b") r.constraint = std::make_shared<Slow>(&f.now_ns, static_cast<int64_t>(1e9 * on_engine));
      of[f.submit(r)] = r.tenant[0];
    }
    for (int i = 0; i < 300; ++i) f.step();
    int64_t a = 0, b = 0;
    for (const auto& [id, choices] : f.made) (of[id] == 'a' ? a : b) += std::ssize(choices.at(0));
    return static_cast<double>(b) / static_cast<double>(a);
  };
  EXPECT_NEAR(tokens_of_b(0), 1, 0.1);
  EXPECT_LT(tokens_of_b(5e-3), 0.5);
  EXPECT_LT(tokens_of_b(0, 5e-3), 0.5);
}

}  // namespace
}  // namespace ingot::sim
