#include "engine/schedule/tenants.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "engine/schedule/pace.h"

namespace ingot {
namespace {

struct Fixture {
  std::vector<std::unique_ptr<Sequence>> all;
  Tenants tenants;

  Sequence& come(SeqId id, const std::string& tenant, int64_t rank, double weight = 1) {
    auto request = std::make_shared<Request>();
    request->tenant = tenant;
    request->weight = weight;
    request->prompt = {1, 2, 3};
    all.push_back(std::make_unique<Sequence>());
    Sequence& seq = *all.back();
    seq.id = id;
    seq.tokens = request->prompt;
    seq.request = std::move(request);
    seq.rank = rank;
    tenants.enter(seq);
    tenants.add(seq);
    return seq;
  }
  // Whose turn it is; null where nobody waits.
  Sequence* next() {
    for (const TenantShare* tenant : tenants.by_turn()) {
      if (!tenant->queue.empty()) return tenant->queue.back();
    }
    return nullptr;
  }
  // So many rows of it are computed.
  void serve(Sequence& seq, int rows) {
    tenants.charge(seq, seq.kv_len, seq.kv_len + rows);
    seq.kv_len += rows;
    tenants.launched(rows);
  }
  void go(Sequence& seq) {
    tenants.remove(seq);
    tenants.leave(seq);
  }
};

TEST(Tenants, OneTenantByRank) {
  Fixture f;
  for (const int rank : {5, 3, 9}) f.come(rank, "a", rank);
  std::vector<int64_t> order;
  while (Sequence* seq = f.next()) {
    order.push_back(seq->rank);
    f.tenants.remove(*seq);
  }
  EXPECT_EQ(order, (std::vector<int64_t>{3, 5, 9}));
}

// A flood of one tenant, however urgent: the other's few requests are served in turn, and time away earns nothing.
TEST(Tenants, GetEqualShares) {
  Fixture f;
  for (int i = 0; i < 100; ++i) f.come(i, "flood", i - 1'000'000);
  f.serve(*f.next(), 5000);
  for (int i = 100; i < 110; ++i) f.come(i, "small", i);
  int small = 0;
  for (int turn = 0; turn < 20; ++turn) {
    Sequence* seq = f.next();
    small += seq->request->tenant == "small";
    f.serve(*seq, 10);
    f.tenants.remove(*seq);
  }
  EXPECT_EQ(small, 10);
}

TEST(Tenants, GetRowsByWeight) {
  Fixture f;
  std::map<std::string, int> rows;
  for (const auto& [name, weight] : {std::pair("one", 1.0), {"two", 2.0}, {"four", 4.0}}) f.come(1, name, 0, weight);
  for (int turn = 0; turn < 700; ++turn) {
    Sequence& seq = *f.next();
    rows[seq.request->tenant] += 10;
    f.serve(seq, 10);
  }
  EXPECT_NEAR(rows["one"], 1000, 20);
  EXPECT_NEAR(rows["two"], 2000, 20);
  EXPECT_NEAR(rows["four"], 4000, 20);
}

// One that asks for little is owed nothing for what it did not ask for.
TEST(Tenants, WhoAsksForLittleSavesNothingUp) {
  Fixture f;
  Sequence& modest = f.come(1, "modest", 0);
  f.tenants.remove(modest);
  f.tenants.begin(modest);
  Sequence& busy = f.come(2, "busy", 0);
  for (int i = 0; i < 1000; ++i) {
    f.serve(modest, 1);
    f.serve(busy, 15);
  }
  for (int i = 0; i < 10; ++i) f.come(10 + i, "modest", i);
  int turns = 0;
  while (f.next()->request->tenant == "modest") {
    f.serve(*f.next(), 15);
    ASSERT_LE(++turns, 2);
  }
}

// New names without end cannot hold back one that was served before.
TEST(Tenants, AStreamOfNewOnesStarvesNobody) {
  Fixture f;
  f.serve(f.come(0, "old", 0), 1000);
  for (int i = 1; i < 2000; ++i) {
    f.come(i, "new" + std::to_string(i), -i);
    Sequence* seq = f.next();
    if (seq->id == 0) return;
    f.serve(*seq, 50);
    f.go(*seq);
  }
  FAIL() << "it never had its turn";
}

// Rows that are computed again are given back, and whoever they are computed again for takes nothing for a while.
TEST(Tenants, WhoTakesPaysForWhatIsComputedAgain) {
  Fixture f;
  Sequence& seq = f.come(1, "a", 0);
  Sequence& other = f.come(2, "b", 0, 2);
  f.serve(seq, 100);
  const double paid = seq.tenant->time;
  f.tenants.bill(seq, *other.tenant);
  seq.kv_len = 40;  // what the cache had of it
  EXPECT_EQ(other.tenant->next_take, 0);
  f.tenants.pay(seq);
  EXPECT_EQ(other.tenant->next_take - f.tenants.clock(), 4 * 60 / 2.0);
  f.serve(seq, 60);
  f.serve(seq, 10);
  f.serve(other, 1000);
  EXPECT_EQ(seq.tenant->time, paid + 10);
  EXPECT_EQ(seq.tenant->owed, 0);
  EXPECT_EQ(other.tenant->bills, 0);
}

// Who put off a whole tenant for its pages waits until its share of the time is what that has cost the other.
TEST(Tenants, WhoPutsOffATenantWaitsForItsTurn) {
  Fixture f;
  Sequence& seq = f.come(1, "a", 0);
  Sequence& other = f.come(2, "b", 0, 3);
  f.serve(seq, 100);
  f.tenants.ran(800);
  f.tenants.bill(seq, *other.tenant, Taken::kPages);
  f.tenants.ran(600);  // of the taker
  seq.kv_len = 40;     // what the cache had of it
  f.tenants.pay(seq);
  EXPECT_EQ(other.tenant->next_take, 0);
  EXPECT_FALSE(f.tenants.may_take(*other.tenant));
  f.tenants.ran(279);  // (600 + 60) · 4 / 3 in all
  EXPECT_FALSE(f.tenants.may_take(*other.tenant));
  f.tenants.ran(1);
  EXPECT_TRUE(f.tenants.may_take(*other.tenant));
}

// However many rows are computed again at once: an eighth of what is computed is given back, the rest is paid first.
TEST(Tenants, WhatIsComputedAgainLeavesOthersTheirShares) {
  Fixture f;
  Sequence& seq = f.come(1, "a", 0);
  Sequence& other = f.come(2, "b", 0);
  f.serve(seq, 800);
  f.serve(other, 800);
  const double paid = seq.tenant->time;
  seq.kv_len = 0;  // set back for another tenant
  int rows = 0;    // of the other meanwhile
  while (seq.kv_len < 800) {
    Sequence& next = *f.next();
    f.serve(next, 8);
    rows += &next == &other ? 8 : 0;
  }
  EXPECT_NEAR(rows, 800 * 7 / 9, 16);  // of the 1,440 an eighth is given back
  f.serve(other, 8000);
  EXPECT_EQ(seq.tenant->time, paid);
}

// What a tenant makes itself compute again it pays for, but for what it had not got back of what another took.
TEST(Tenants, WhoSetsItselfBackPaysForIt) {
  Fixture f;
  Sequence& seq = f.come(1, "a", 0);
  Sequence& other = f.come(2, "b", 0);
  f.serve(seq, 100);
  const double paid = seq.tenant->time;
  seq.kv_len = 0;  // set back for another tenant
  f.serve(seq, 30);
  f.serve(other, 1000);
  EXPECT_EQ(seq.tenant->time, paid);
  f.tenants.lose(seq);
  seq.kv_len = 10;  // what the cache had of it
  f.tenants.pay(seq);
  f.serve(seq, 90);
  f.serve(other, 1000);
  EXPECT_EQ(seq.tenant->time, paid + 20);  // 10 to 30
  // Nothing is lost where the cache has all.
  f.tenants.lose(seq);
  f.tenants.pay(seq);
  f.serve(seq, 5);
  EXPECT_EQ(seq.tenant->time, paid + 25);
}

// One that wants more than its share has its turn once it has waited for three quarters of what its share takes longer
// to read it, and the next when its turns are its share of the time.
TEST(Tenants, TurnsAreATenantsShareOfTheTime) {
  Fixture f;
  Sequence& large = f.come(1, "large", 0);
  large.tokens.resize(100);
  f.come(2, "small", 0, 3);
  const auto waits = [&](Sequence& seq) {
    for (int rows = 0;; ++rows, f.tenants.ran(1)) {
      f.tenants.ask_turn(seq);
      if (f.tenants.begin_turn() == &seq) return rows;
      EXPECT_LT(rows, 10'000);
    }
  };
  f.tenants.ran(4);
  f.tenants.ask_turn(large);
  EXPECT_EQ(f.tenants.begin_turn(), nullptr) << "nobody went past it";
  large.passed_at = 1;
  EXPECT_EQ(waits(large), 300 - 300 / 4);
  EXPECT_EQ(f.tenants.turn_of(), &large);
  f.tenants.ran(40);
  f.tenants.end_turn();
  EXPECT_EQ(waits(large), 3 * 40);
  f.tenants.end_turn();
  // What is computed again for it counts twice, and puts off everybody's turn by four times as much.
  Sequence& given = f.come(3, "other", 0, 4);
  Sequence& next = f.come(4, "next", 0, 8);
  next.tokens.resize(1);
  next.passed_at = 0;
  given.paid = 20;
  f.tenants.bill(given, *large.tenant, Taken::kTurn);
  f.tenants.pay(given);
  EXPECT_EQ(waits(next), 4 * 20);
  f.tenants.end_turn();
  EXPECT_EQ(waits(large) + 4 * 20, 2 * 20 * 16);
}

// What its share of the rows would have read of it while it waited it does not pay in its turn, row by row as it is
// read: nothing is left of it for others of its tenant. Rows that are read again are given back as ever.
TEST(Tenants, ATurnGivesBackTheRowsOfItsWait) {
  Fixture f;
  Sequence& large = f.come(1, "large", 0);
  large.tokens.resize(100);
  f.come(2, "small", 0);
  large.passed_at = 0;
  f.tenants.charge(large, 0, 8);
  EXPECT_EQ(large.tenant->time, 8);
  f.tenants.ran(1000);
  f.tenants.ask_turn(large);
  ASSERT_EQ(f.tenants.begin_turn(), &large);
  EXPECT_EQ(large.tenant->time, 8);
  f.tenants.charge(large, 0, 24);
  EXPECT_EQ(large.tenant->time, 8 + 24 - 16 * 0.75 / 2);
  EXPECT_EQ(large.tenant->owed, 8);
  f.tenants.end_turn();
  f.tenants.charge(large, 24, 32);
  EXPECT_EQ(large.tenant->time, 8 + 24 - 6 + 8);
}

// Turns of several take no more than half of the time, and after each the others pass for as long; however many are
// there during a turn and gone after it.
class TurnsOfSeveral : public testing::TestWithParam<int> {};

TEST_P(TurnsOfSeveral, LeaveHalfOfTheTime) {
  Fixture f;
  std::vector<Sequence*> guests;
  std::vector<Sequence*> large;
  for (int i = 0; i < 3; ++i) {
    large.push_back(&f.come(i, "large" + std::to_string(i), 0));
    large.back()->tokens.resize(100);
    large.back()->passed_at = 0;
  }
  int held = 0, on_end = 0, longest = 0, left = 0;
  std::map<const Sequence*, int> turns;
  for (int i = 0; i < 10'000; ++i, f.tenants.ran(3)) {
    for (Sequence* seq : large) f.tenants.ask_turn(*seq);
    if (Sequence* next = f.tenants.begin_turn()) {
      next->passed_at = f.tenants.spent();  // its next comes then
      for (int g = 0; g < GetParam(); ++g) guests.push_back(&f.come(100 + g, "guest" + std::to_string(g), 0));
    }
    const Sequence* of = f.tenants.turn_of();
    held += of != nullptr;
    on_end = of ? on_end + 1 : 0;
    longest = std::max(longest, on_end);
    if (of && ++left == 40) {
      ++turns[of];
      left = 0;
      f.tenants.end_turn();
      for (Sequence* guest : std::exchange(guests, {})) f.go(*guest);
    }
  }
  if (GetParam() == 0) EXPECT_GT(held, 4000);
  EXPECT_LE(held, 5120);  // the first began at once
  EXPECT_EQ(longest, 40);
  ASSERT_EQ(turns.size(), 3u);
  for (const auto& [seq, n] : turns) EXPECT_GE(n, GetParam() ? 5 : 30) << seq->id;
}
INSTANTIATE_TEST_SUITE_P(Guests, TurnsOfSeveral, testing::Values(0, 30));

// A turn ends with its own seq, not with another one of its tenant.
TEST(Tenants, ATurnEndsWithItsOwnSeqAlone) {
  Fixture f;
  Sequence& first = f.come(1, "large", 1);
  f.come(2, "small", 0);
  Sequence& second = f.come(3, "large", 0);
  second.passed_at = 0;
  f.tenants.ran(100);
  f.tenants.ask_turn(second);
  ASSERT_EQ(f.tenants.begin_turn(), &second);
  f.go(first);
  EXPECT_EQ(f.tenants.turn_of(), &second);
  f.go(second);
  EXPECT_EQ(f.tenants.turn_of(), nullptr);
}

// Who is gone past saves nothing up: it is as far as the first of those that wait.
TEST(Tenants, WhoIsPassedIsNotBehind) {
  Fixture f;
  TenantShare& large = *f.come(1, "large", 0).tenant;
  Sequence& small = f.come(2, "small", 0);
  f.serve(small, 100);
  EXPECT_EQ(large.time, 0);
  large.passed = true;
  f.serve(small, 100);
  EXPECT_EQ(large.time, small.tenant->time);
}

// Nor does who waits for a place beyond its share, but for what it had too few of them by turns.
TEST(Tenants, WhoWaitsForAPlaceIsBehindByFewRows) {
  Fixture f;
  TenantShare& full = *f.come(1, "full", 0, 2).tenant;
  Sequence& reads = f.come(2, "reads", 0);
  for (int i = 0; i < 500; ++i) {
    full.full = true;
    f.serve(reads, 1);
  }
  EXPECT_EQ(full.time, reads.tenant->time - 256);
  full.full = full.hungry = true;  // that waits for rows
  f.serve(reads, 100);
  EXPECT_EQ(full.time, reads.tenant->time - 356);
}

// One slow step does not let the chunks grow beyond what fits.
TEST(Pace, RecoversFromAnOutlier) {
  Pace pace(0.1, 16, 512);
  for (int i = 0; i < 5; ++i) pace.measured(8, 0, 0.02);
  for (int i = 0; i < 5; ++i) pace.measured(8, 64, 0.02 + 64 * 0.001);
  pace.measured(8, 0, 0.5);
  for (int i = 0; i < 10; ++i) {
    const int rows = pace.prompt_rows();
    const double seconds = 0.02 + rows * 0.001;
    EXPECT_LT(seconds, 0.2);
    pace.measured(8, rows, seconds);
  }
  EXPECT_GE(pace.prompt_rows(), 32);
  pace.measured(8, 0, 0.02);
  pace.measured(8, 0, 0.02);
  EXPECT_LE(0.02 + pace.prompt_rows() * 0.001, 0.2);
}

TEST(Pace, ChunksShrinkUntilTheStepFits) {
  Pace pace(0.1, 16, 512);
  EXPECT_EQ(pace.prompt_rows(), 64);  // nothing is known yet
  pace.measured(8, 0, 0.02);
  pace.measured(8, 64, 0.02 + 64 * 0.001);
  EXPECT_EQ(pace.prompt_rows(), 64);  // (90 - 20) / 1 ms a row, in whole tiles of 16
  for (int i = 0; i < 10; ++i) pace.measured(8, 64, 0.02 + 64 * 0.004);
  EXPECT_EQ(pace.prompt_rows(), 16);
  for (int i = 0; i < 10; ++i) pace.measured(8, 64, 0.02 + 64 * 0.0001);
  EXPECT_GE(pace.prompt_rows(), 256);
  EXPECT_EQ(Pace(0, 16, 512).prompt_rows(), 512);  // no target
}

}  // namespace
}  // namespace ingot
