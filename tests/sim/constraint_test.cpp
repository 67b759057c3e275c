// What the engine makes of a request's constraint: one for each choice, before everything else that limits a token, and
// never a token that it forbids.
#include <gtest/gtest.h>

#include <cmath>

#include "sim/core_fixture.h"

namespace ingot::sim {
namespace {

// Lets through what `allowed` says of the number of tokens made, and is complete after `length`.
class Scripted : public TokenConstraint {
 public:
  using Allowed = std::function<std::vector<int32_t>(int made)>;
  explicit Scripted(Allowed allowed, int length = 1000) : allowed_(std::move(allowed)), length_(length) {}

  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Scripted>(*this); }
  void mask(std::span<uint32_t> words) override {
    std::ranges::fill(words, 0);
    for (const int32_t token : allowed_(made_)) words[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
  }
  void advance(int32_t token) override {
    const std::vector<int32_t> now = allowed_(made_);
    if (std::ranges::find(now, token) == now.end()) throw std::runtime_error("a token that may not come");
    ++made_;
  }
  void rollback(int n) override { made_ -= n; }
  bool complete() const override { return made_ >= length_; }

 private:
  Allowed allowed_;
  int length_;
  int made_ = 0;
};

// Of a vocabulary of 50 those that are `made` modulo 3.
std::vector<int32_t> thirds(int made) {
  std::vector<int32_t> tokens;
  for (int32_t t = made % 3; t < 50; t += 3) tokens.push_back(t);
  return tokens;
}

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Constraint, EachChoiceHasItsOwn) {
  Fixture f;
  Request r = f.request(tokens_of(5, 9), 40);
  r.choices = 3;
  r.sampling.seed = 11;
  r.constraint = std::make_shared<Scripted>(thirds, 12);
  const SeqId id = f.submit(r);
  f.run();
  EXPECT_EQ(f.finish[id], FinishReason::kStop);
  for (int c = 0; c < 3; ++c) {
    Scripted alone(thirds);
    Request twelve = r;
    twelve.max_tokens = 12;
    EXPECT_EQ(f.made[id][c], expected_tokens(f.shape, twelve, c, f.options.context, {}, &alone)) << c;
  }
  EXPECT_NE(f.made[id][0], f.made[id][1]);
}

// Mates, chunks of prompts and being set back change no token; a constraint's state goes with its seq.
TEST(Constraint, TheSameTextAloneAndBatched) {
  for (const bool ahead : {false, true}) {
    Fixture f([&](Fixture& x) {
      x.ahead = ahead;
      x.shape.groups = {{.pages = 30}};
    });
    std::map<SeqId, Request> requests;
    for (int i = 0; i < 6; ++i) {
      Request r = f.request(tokens_of(i, 30), 30);
      r.sampling.seed = static_cast<uint64_t>(i);
      if (i % 3 != 2) r.constraint = std::make_shared<Scripted>(thirds);
      requests[f.submit(r)] = r;
    }
    f.run();
    EXPECT_GT(f.core->stats().preempted, 0);
    for (const auto& [id, r] : requests) {
      Scripted alone(thirds);
      EXPECT_EQ(f.made[id][0], expected_tokens(f.shape, r, 0, f.options.context, {}, r.constraint ? &alone : nullptr));
    }
  }
}

// After three tokens an end is all that may come, and it comes though more tokens were asked for.
TEST(Constraint, AnEndThatItDemandsComesBeforeMinTokens) {
  for (const int32_t end : {7, 8}) {  // each of the end tokens counts
    Fixture f;
    Request r = f.request(tokens_of(5, 9), 40);
    r.end_tokens = {8, 7, 8, 999};
    r.min_tokens = 20;
    r.constraint = std::make_shared<Scripted>([&](int made) { return made < 3 ? thirds(made) : std::vector{end}; });
    const SeqId id = f.submit(r);
    f.run();
    ASSERT_EQ(f.made[id][0].size(), 4u);
    EXPECT_EQ(f.made[id][0].back(), end);
    EXPECT_EQ(f.finish[id], FinishReason::kStop);
  }
}

// Where anything else may come min_tokens holds.
TEST(Constraint, MinTokensHoldWhereTheyCan) {
  Fixture f;
  Request r = f.request(tokens_of(5, 9), 40);
  r.end_tokens = {7, 8};
  r.min_tokens = 12;
  r.constraint = std::make_shared<Scripted>([](int) { return std::vector{7, 8, 9}; });
  const SeqId id = f.submit(r);
  f.run();
  ASSERT_GE(f.made[id][0].size(), 12u);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(f.made[id][0][i], 9);
}

TEST(Constraint, BansCannotLeaveNothing) {
  const auto tokens_with = [](std::vector<std::pair<int32_t, float>> biases) {
    Fixture f;
    Request r = f.request(tokens_of(5, 9), 16);
    r.sampling.logit_bias = std::move(biases);
    r.constraint = std::make_shared<Scripted>([](int made) {
      return made % 2 ? std::vector{4, 5} : std::vector{6, 40};
    });
    const SeqId id = f.submit(r);
    f.run();
    EXPECT_EQ(f.finish[id], FinishReason::kLength);
    return f.made[id][0];
  };
  const std::vector<int32_t> free = tokens_with({});
  EXPECT_EQ(free.size(), 16u);
  EXPECT_EQ(tokens_with({{4, -kInf}, {5, -kInf}, {6, -kInf}, {40, -kInf}}), free);
  EXPECT_EQ(tokens_with({{20, kInf}, {6, 0.0f}}), free);
  const std::vector<int32_t> banned = tokens_with({{4, -kInf}, {4, -kInf}, {40, -kInf}, {20, -kInf}});
  const std::vector<int32_t> forced = tokens_with({{5, kInf}, {6, kInf}, {20, kInf}});
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(banned[i], i % 2 ? 5 : 6);
    EXPECT_EQ(forced[i], i % 2 ? 5 : 6);
  }
}

struct Ending {
  std::vector<int32_t> made;
  FinishReason finish = FinishReason::kNone;
  std::string reason;
};

Ending ending_of(Fixture& f, SeqId id) {
  Ending ending;
  while (!f.core->idle()) {
    for (const Event& event : f.core->step()) {
      if (event.request != id && event.sample.token >= 0) {
        f.made[event.request][event.choice].push_back(event.sample.token);
      }
      if (event.request != id) continue;
      if (event.sample.token >= 0) ending.made.push_back(event.sample.token);
      if (event.finish == FinishReason::kNone) continue;
      ending.finish = event.finish;
      ending.reason = event.reason;
    }
    f.now_ns += 1'000'000;
  }
  return ending;
}

TEST(Constraint, OneThatCannotGoOnEndsItsRequestAndSaysWhy) {
  struct Limited : Scripted {
    Limited() : Scripted(thirds) {}
    int at = 0;
    std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Limited>(*this); }
    void mask(std::span<uint32_t> words) override {
      if (at++ == 5) throw ConstraintError("more than 5 steps");
      Scripted::mask(words);
    }
  };
  Fixture f;
  Request bad = f.request(tokens_of(1, 10), 20), good = f.request(tokens_of(2, 10), 20);
  bad.constraint = std::make_shared<Limited>();
  const SeqId id = f.submit(bad);
  const SeqId other = f.submit(good);
  const Ending ending = ending_of(f, id);
  EXPECT_EQ(ending.made.size(), 5u);
  EXPECT_EQ(ending.finish, FinishReason::kConstraint);
  EXPECT_EQ(ending.reason, "more than 5 steps");
  EXPECT_EQ(f.core->stats().errors, 1);
  EXPECT_EQ(f.made[other][0], f.expected(good));
}

TEST(Constraint, AnEmptyMaskMakesNoToken) {
  for (const int draft : {0, 3}) {
    Fixture f([&](Fixture& x) { x.config.max_draft = draft; });
    struct Zeros : Drafter {
      void propose(std::span<const int32_t>, int max, std::vector<int32_t>& out) override {
        out.assign(static_cast<size_t>(max), 0);
      }
    };
    Request r = f.request(tokens_of(1, 10), 20);
    if (draft > 0) r.drafter = std::make_shared<Zeros>();
    r.constraint = std::make_shared<Scripted>([](int made) { return std::vector<int32_t>(made < 4 ? 1 : 0); });
    const SeqId id = f.submit(r);
    const Ending ending = ending_of(f, id);
    EXPECT_EQ(ending.finish, FinishReason::kConstraint) << draft;
    EXPECT_LE(ending.made.size(), 4u);
    for (const int32_t token : ending.made) EXPECT_EQ(token, 0);
    EXPECT_EQ(ending.reason, "no token of the model can follow");
  }
}

// What a constraint proposes itself makes fewer steps of the same answer.
TEST(Constraint, ItsOwnGuessesChangeNothing) {
  struct Guessing : Scripted {
    std::vector<int32_t> answer;
    size_t made = 0;
    int wrong = 0;
    explicit Guessing(std::vector<int32_t> tokens) : Scripted(thirds), answer(std::move(tokens)) {}
    std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Guessing>(*this); }
    void advance(int32_t token) override {
      Scripted::advance(token);
      ++made;
    }
    void rollback(int n) override {
      Scripted::rollback(n);
      made -= static_cast<size_t>(n);
    }
    bool proposes() const override { return true; }
    void propose(int max, std::vector<int32_t>& draft) override {
      for (size_t i = made; i < answer.size() && draft.size() < static_cast<size_t>(max); ++i) {
        draft.push_back(++wrong % 5 == 0 ? (answer[i] + 3) % 48 : answer[i]);
      }
    }
  };
  for (const bool ahead : {false, true}) {
    Fixture f([&](Fixture& x) {
      x.ahead = ahead;
      x.config.max_draft = 4;
    });
    Request r = f.request(tokens_of(3, 9), 60);
    r.constraint = std::make_shared<Scripted>(thirds);
    const SeqId plain = f.submit(r);
    f.run();
    const int64_t steps = f.core->stats().steps;
    Request mate = f.request(tokens_of(7, 12), 30);
    r.constraint = std::make_shared<Guessing>(f.made[plain][0]);
    r.choices = 2;
    const SeqId guessed = f.submit(r), other = f.submit(mate);
    f.run();
    EXPECT_EQ(f.made[guessed][0], f.made[plain][0]);
    EXPECT_EQ(f.made[other][0], f.expected(mate));
    Scripted alone(thirds);
    EXPECT_EQ(f.made[guessed][1], expected_tokens(f.shape, r, 1, f.options.context, {}, &alone));
    EXPECT_GT(f.core->stats().accepted, 10);
    EXPECT_LT(f.core->stats().accepted, f.core->stats().drafted);
    EXPECT_GT(steps, 50);
  }
}

// A guess that completes the answer ends the draft: nothing is asked of a constraint that is complete.
TEST(Constraint, ADraftEndsWithTheAnswer) {
  Fixture f([](Fixture& x) { x.config.max_draft = 4; });
  struct Fours : Drafter {
    void propose(std::span<const int32_t>, int max, std::vector<int32_t>& out) override {
      out.assign(static_cast<size_t>(max), 4);
    }
  };
  Request r = f.request(tokens_of(1, 10), 20);
  r.drafter = std::make_shared<Fours>();
  r.constraint = std::make_shared<Scripted>([](int made) { return std::vector<int32_t>(made < 6 ? 1 : 0, 4); }, 6);
  const SeqId id = f.submit(r);
  f.run();
  EXPECT_EQ(f.made[id][0], std::vector<int32_t>(6, 4));
  EXPECT_EQ(f.finish[id], FinishReason::kStop);
  EXPECT_GT(f.core->stats().accepted, 0);
}

}  // namespace
}  // namespace ingot::sim
