#include "engine/schedule/admission.h"

#include <gtest/gtest.h>

namespace ingot {
namespace {

constexpr int kSeqs = 16;
constexpr double kTarget = 1;  // second

// The engine as its admission sees it: seqs in the queue and seqs that run.
struct Fixture {
  Admission admission{64, kTarget};
  Tenants tenants;
  std::vector<std::unique_ptr<Sequence>> all;
  std::vector<Sequence*> queue, running;
  double now = 0;

  static Request request(const std::string& tenant = "", int tokens = 100) {
    Request r;
    r.tenant = tenant;
    r.prompt.assign(static_cast<size_t>(tokens), 1);
    return r;
  }
  int free() const { return kSeqs - static_cast<int>(running.size()); }
  bool ask(const std::string& tenant = "") { return admission.ask(request(tenant), free()).in; }
  // The engine takes it: it waits until the next step.
  void arrive(const std::string& tenant = "") {
    admission.arrived(request(tenant));
    all.push_back(std::make_unique<Sequence>());
    Sequence& seq = *all.back();
    seq.request = std::make_shared<const Request>(request(tenant));
    seq.tokens = seq.request->prompt;
    seq.id = static_cast<SeqId>(all.size());
    tenants.enter(seq);
    tenants.add(seq);
    queue.push_back(&seq);
  }
  void begin() {
    Sequence* seq = queue.front();
    queue.erase(queue.begin());
    tenants.remove(*seq);
    tenants.begin(*seq);
    seq->kv_len = seq->n_tokens() - 1;  // it is read: it decodes
    running.push_back(seq);
  }
  void end() {
    Sequence* seq = running.front();
    running.erase(running.begin());
    tenants.end(*seq);
    tenants.leave(*seq);
  }
  // Of 50 ms, in which so many began.
  void step(int begun) {
    now += 0.05;
    admission.tell(
        {.seconds = 0.05, .at = now, .left = !queue.empty(), .read = 100 * begun, .begun = begun, .row_seconds = 1e-4});
    admission.tell(tenants);
  }
  // All places are taken by answers of 20 s while others wait: one begins every 1.25 s.
  void overload() {
    for (int i = 0; i < kSeqs + 4; ++i) {
      EXPECT_TRUE(ask());
      arrive();
    }
    for (int i = 0; i < kSeqs; ++i) begin();
    step(kSeqs);
    for (int i = 0; i < 2000; ++i) {
      const bool one_ends = i % 25 == 24;
      if (one_ends) {
        end();
        begin();
        if (ask()) arrive();
      }
      step(one_ends);
      if (queue.empty()) {  // who is let in keeps it loaded
        (void)ask();
        arrive();
      }
    }
  }
  void idle() {
    while (!queue.empty()) begin();
    while (!running.empty()) end();
    step(0);
  }
};

// A seq waits 1.25 s for its turn: none is let in behind another, and each is told when to come again.
TEST(Admission, SendsAwayWhoWouldMissTheTarget) {
  Fixture f;
  f.overload();
  ASSERT_FALSE(f.queue.empty());
  const Admission::Answer answer = f.admission.ask(Fixture::request(), f.free());
  EXPECT_FALSE(answer.in);
  EXPECT_TRUE(answer.late);
  EXPECT_GT(answer.retry_seconds, 0);
}

// What all places taken meant for those who waited says nothing where all are free.
TEST(Admission, ServesAsManyAsFindAPlaceOnAnIdleServerThatWasOverloaded) {
  for (const bool taken : {false, true}) {  // while none has been taken by the engine, and while all have
    Fixture f;
    f.overload();
    f.idle();
    int in = 0;
    for (; in < kSeqs && f.ask(); ++in) {
      if (taken) f.arrive();
    }
    EXPECT_EQ(in, kSeqs) << taken;
  }
}

// What others have on their way takes places, too: behind them its own wait as they did, and one without any does not.
TEST(Admission, PlacesThatOthersAreAboutToTakeAreNotFree) {
  Fixture f;
  f.overload();
  f.idle();
  for (int i = 0; i < kSeqs; ++i) EXPECT_TRUE(f.ask(i % 2 ? "a" : "b"));
  EXPECT_FALSE(f.ask("a"));
  EXPECT_TRUE(f.ask("c"));
}

// Who still waits after a step while places are free waits for pages.
TEST(Admission, FreePlacesDoNotHelpWhoWaitsForPages) {
  Fixture f;
  f.overload();
  while (f.running.size() > 2) f.end();
  f.step(0);
  ASSERT_FALSE(f.queue.empty());
  EXPECT_EQ(f.free(), kSeqs - 2);
  EXPECT_FALSE(f.ask());
}

// Once nobody has waited for long, what was measured before is forgotten: in steps, and in time without any.
TEST(Admission, WhatWasMeasuredAges) {
  for (const bool idle : {false, true}) {
    Fixture f;
    f.overload();
    f.idle();
    for (int i = 0; i < kSeqs; ++i) {
      EXPECT_TRUE(f.ask());
      f.arrive();
    }
    while (!f.queue.empty()) f.begin();
    if (idle) f.now += 60;
    for (int i = 0; i < (idle ? 1 : 1200); ++i) f.step(0);
    EXPECT_EQ(f.free(), 0);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(f.ask()) << idle;
  }
}

}  // namespace
}  // namespace ingot
