// What core.h promises of memory: a step allocates nothing but for a seq that begins in it.
#include <gtest/gtest.h>

#include "sim/core_fixture.h"

namespace ingot::sim {
namespace {

// Lets all tokens through, and allocates nothing.
struct Anything : TokenConstraint {
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Anything>(*this); }
  void mask(std::span<uint32_t>) override {}
  void advance(int32_t) override {}
  void rollback(int) override {}
};
struct TwoGuesses : Drafter {
  void propose(std::span<const int32_t> tokens, int, std::vector<int32_t>& draft) override {
    draft.push_back(tokens.back());
    draft.push_back(3);
  }
};

// Those of one step, without what the scripted model does, which runs between the two callbacks.
int64_t allocations_of_a_step(Fixture& f) {
  const int64_t before = allocations();
  const std::span<Event> events = f.core->step();
  const int64_t after = allocations();
  for (const Event& event : events) {
    if (event.sample.token >= 0) f.made[event.request][event.choice].push_back(event.sample.token);
  }
  f.now_ns += 1'000'000;
  return after - before;
}

void leave_out_the_model(Fixture& f) {
  f.model->on_step = [](const StepWork&) { pause_allocation_failure(); };
  f.core->damaged = [] {
    resume_allocation_failure();
    return false;
  };
}

struct Kind {
  const char* name;
  std::function<void(Fixture&)> fixture;
  std::function<void(Request&)> request;
};

const std::vector<Kind>& kinds() {
  const auto same = [](Fixture&) {};
  const auto plain = [](Request&) {};
  static const std::vector<Kind> all = {
      {"plain", same, plain},
      {"ahead", [](Fixture& f) { f.ahead = true; }, plain},
      {"a window", [](Fixture& f) { f.shape.groups.push_back({.pages = 600, .window = 30}); }, plain},
      {"no prefix cache", [](Fixture& f) { f.config.prefix_cache = false; }, plain},
      {"state",
       [](Fixture& f) {
         f.shape.has_state = true;
         f.options.snapshots = 4;
       },
       plain},
      {"penalties", same, [](Request& r) { r.sampling.repetition_penalty = 1.2f; }},
      {"end tokens that may not come", [](Fixture& f) { f.ahead = true; },
       [](Request& r) {
         r.end_tokens = {1, 2, 3};
         r.min_tokens = 1000;
       }},
      {"a constraint", same, [](Request& r) { r.constraint = std::make_shared<Anything>(); }},
      {"a constraint ahead", [](Fixture& f) { f.ahead = true; },
       [](Request& r) { r.constraint = std::make_shared<Anything>(); }},
      {"a drafter", [](Fixture& f) { f.config.max_draft = 2; },
       [](Request& r) {
         r.drafter = std::make_shared<TwoGuesses>();
         r.constraint = std::make_shared<Anything>();
       }},
  };
  return all;
}

// Four decode, over many borders of pages, while four others wait.
TEST(CoreMemory, AStepOfThoseThatRunAllocatesNothing) {
  for (const Kind& kind : kinds()) {
    Fixture f([&](Fixture& x) {
      x.shape.groups = {{.pages = 1000}};
      x.options.context = 900;
      kind.fixture(x);
    });
    leave_out_the_model(f);
    std::map<SeqId, Request> requests;
    for (int i = 0; i < 8; ++i) {
      Request r = f.request(tokens_of(i, 20 + i), 800);
      r.sampling.seed = static_cast<uint64_t>(i);
      r.tenant = i % 2 ? "a" : "b";
      kind.request(r);
      requests[f.submit(r)] = r;
    }
    for (int i = 0; i < 20; ++i) allocations_of_a_step(f);
    EXPECT_EQ(f.core->stats().running, 4) << kind.name;
    int64_t all = 0;
    for (int i = 0; i < 240; ++i) all += allocations_of_a_step(f);
    EXPECT_EQ(all, 0) << kind.name;
    EXPECT_EQ(f.core->stats().running, 4) << kind.name;
    for (const auto& [id, tokens] : f.made) {
      const std::vector<int32_t> expected = f.expected(requests.at(id));
      ASSERT_GE(tokens.at(0).size(), 240u) << kind.name;
      EXPECT_TRUE(std::equal(tokens.at(0).begin(), tokens.at(0).end(), expected.begin())) << kind.name;
    }
  }
}

// From the first step to the last: prompts in chunks, ends, choices; only who begins may want memory.
TEST(CoreMemory, OnlyWhoBeginsAllocates) {
  for (const bool ahead : {false, true}) {
    Fixture f([&](Fixture& x) {
      x.ahead = ahead;
      x.shape.groups = {{.pages = 1000}};
      x.config.chunk_rows = 8;
    });
    leave_out_the_model(f);
    for (int i = 0; i < 20; ++i) {
      Request r = f.request(tokens_of(i % 3, 10 + 5 * i), 5 + 4 * i);
      r.choices = i % 5 == 0 ? 3 : 1;
      f.submit(r);
    }
    int steps = 0;
    int64_t of_beginners = 0;
    while (!f.core->idle()) {
      const int waiting = f.core->stats().waiting;
      const int64_t n = allocations_of_a_step(f);
      if (f.core->stats().waiting < waiting) {
        of_beginners += n;
        continue;
      }
      EXPECT_EQ(n, 0) << "step " << f.core->n_steps();
      ++steps;
    }
    EXPECT_EQ(f.core->stats().preempted, 0);
    EXPECT_GT(steps, 100);
    EXPECT_GT(of_beginners, 0);  // they are counted
  }
}

}  // namespace
}  // namespace ingot::sim
