#include "engine/replicas/router.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ingot {
namespace {

constexpr int kPageRows = 4;

Request request(int first, int rows, const std::string& tenant = "") {
  Request r;
  r.prompt.resize(static_cast<size_t>(rows));
  std::iota(r.prompt.begin(), r.prompt.end(), first);
  r.max_tokens = 1;
  r.tenant = tenant;
  return r;
}

Event made(int choice, int token, FinishReason finish = FinishReason::kNone) {
  Event event;
  event.choice = choice;
  event.sample.token = token;
  event.finish = finish;
  return event;
}

struct Fixture {
  explicit Fixture(int engines = 2, int pages = 1000)
      : router({.engines = engines, .page_rows = kPageRows, .pages = pages}), tried(static_cast<size_t>(engines)) {}

  std::shared_ptr<Router::Ticket> send(const Request& r) { return router.assign(r, router.address(r), tried); }
  // It is answered with `n` tokens from `token` on, and gone.
  static void answer(std::shared_ptr<Router::Ticket> ticket, int n, int token = 7) {
    for (int i = 0; i < n; ++i) {
      ticket->take(made(0, token + i, i + 1 == n ? FinishReason::kLength : FinishReason::kNone));
    }
  }

  Router router;
  std::vector<char> tried;
};

TEST(Router, SendsWhereLeastIsLeft) {
  Fixture f(3);
  const auto first = f.send(request(0, 100));
  const auto second = f.send(request(1000, 50));
  const auto third = f.send(request(2000, 80));
  EXPECT_EQ(first->engine(), 0);
  EXPECT_EQ(second->engine(), 1);
  EXPECT_EQ(third->engine(), 2);
  const auto fourth = f.send(request(3000, 10));
  EXPECT_EQ(fourth->engine(), 1);
  EXPECT_GT(f.router.left(0), 100);
  // What is read is done, what has gone too.
  first->take(made(0, 1));
  EXPECT_LT(f.router.left(0), 20);
  EXPECT_EQ(f.send(request(4000, 10))->engine(), 0);
}

TEST(Router, NothingIsLeftOfThoseThatHaveGone) {
  Fixture f;
  {
    const auto cancelled = f.send(request(0, 100));
    Request choices = request(1000, 100);
    choices.choices = 3;
    const auto half = f.send(choices);
    half->take(made(1, 1, FinishReason::kStop));
    half->take(made(2, -1, FinishReason::kError));
    EXPECT_GT(f.router.left(0), 0);
    EXPECT_GT(f.router.left(1), 0);
  }
  EXPECT_EQ(f.router.left(0), 0);
  EXPECT_EQ(f.router.left(1), 0);
}

TEST(Router, SendsToWhoHasReadTheBeginning) {
  Fixture f;
  f.answer(f.send(request(0, 100)), 1);
  const auto other = f.send(request(5000, 30));
  EXPECT_EQ(other->engine(), 0);  // nothing is left anywhere
  const auto again = f.send(request(0, 120));
  EXPECT_EQ(again->engine(), 0);
  EXPECT_EQ(again->found(), 100);
  // The last row of a prompt is computed wherever it was read.
  EXPECT_EQ(f.send(request(0, 100))->found(), 96);
  // So much is left there that it is sooner read elsewhere.
  const auto long_one = f.send(request(0, 2000));
  EXPECT_EQ(long_one->engine(), 0);
  const auto moved = f.send(request(0, 100));
  EXPECT_EQ(moved->engine(), 1);
  EXPECT_EQ(moved->found(), 0);
}

TEST(Router, WhatNobodyMayShareIsNotFound) {
  Fixture f(1);
  f.answer(f.send(request(0, 40, "a")), 1);
  EXPECT_EQ(f.send(request(0, 60, "a"))->found(), 40);
  EXPECT_EQ(f.send(request(0, 60, "b"))->found(), 0);
  Request adapted = request(0, 60, "a");
  adapted.adapter = "x";
  EXPECT_EQ(f.send(adapted)->found(), 0);
  Request fresh = request(0, 60, "a");
  fresh.reuse_prefix = false;
  EXPECT_EQ(f.send(fresh)->found(), 0);
  Request reported = request(0, 60, "a");
  reported.on_logits = [](int, std::span<const float>) {};
  reported.logits_from = 10;
  EXPECT_EQ(f.send(reported)->found(), 8);
}

TEST(Router, KnowsThePagesOfAnswers) {
  Fixture f(1);
  f.answer(f.send(request(0, 10)), 30, 10);  // 0 … 39, and the last token was never computed
  EXPECT_EQ(f.send(request(0, 60))->found(), 36);
}

TEST(Router, WhatWasUsedLeastRecentlyGoesFirst) {
  Fixture f(1, 20);
  f.answer(f.send(request(0, 40)), 1);
  f.answer(f.send(request(1000, 40)), 1);
  f.answer(f.send(request(0, 40)), 1);
  f.answer(f.send(request(2000, 40)), 1);
  EXPECT_EQ(f.send(request(0, 41))->found(), 40);
  EXPECT_EQ(f.send(request(1000, 41))->found(), 0);
  // A prompt's last pages before its first.
  Fixture g(1, 15);
  g.answer(g.send(request(0, 40)), 1);
  g.answer(g.send(request(1000, 40)), 1);
  EXPECT_EQ(g.send(request(0, 41))->found(), 20);
}

TEST(Router, AnEngineThatIsBusyHasNothing) {
  Fixture f;
  const Request r = request(0, 100);
  const Router::Prompt prompt = f.router.address(r);
  {
    const auto ticket = f.send(r);
    EXPECT_EQ(ticket->engine(), 0);
    ticket->withdraw(prompt);
    f.tried[0] = 1;
    EXPECT_EQ(f.send(r)->engine(), 1);
    f.tried[0] = 0;
  }
  EXPECT_EQ(f.router.left(0), 0);
  const auto again = f.send(r);
  EXPECT_EQ(again->engine(), 1);
  EXPECT_EQ(again->found(), 96);
}

// Another's flood is in the way by its weight alone.
TEST(Router, CountsOnlyTheShareOfOthers) {
  Fixture f, g;
  std::vector<std::shared_ptr<Router::Ticket>> held;
  for (int i = 0; i < 10; ++i) held.push_back(f.send(request(10'000 * (i + 1), 1000, "flood")));
  std::vector<int> engines(2);
  for (int i = 0; i < 10; ++i) {
    held.push_back(f.send(request(200'000 + 1000 * i, 100, "small")));
    ++engines[static_cast<size_t>(held.back()->engine())];
  }
  EXPECT_EQ(engines[0], 5);
  EXPECT_EQ(engines[1], 5);
  // Even where the flood lies on one side: there half of the rows are still its own.
  held.clear();
  g.tried = {0, 1};
  for (int i = 0; i < 10; ++i) held.push_back(g.send(request(10'000 * (i + 1), 1000, "flood")));
  g.tried = {0, 0};
  int beside = 0;
  for (int i = 0; i < 12; ++i) {
    held.push_back(g.send(request(200'000 + 1000 * i, 100, "small")));
    beside += held.back()->engine() == 0;
  }
  EXPECT_GE(beside, 3);
  EXPECT_LE(beside, 6);
}

}  // namespace
}  // namespace ingot
