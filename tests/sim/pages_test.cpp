// How tenants share pages where one long answer has nearly all, what is kept of them, and what scored prompts cost.
// INGOT_SIM_SEEDS makes the run of many seeds longer.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/core_fixture.h"
#include "sim/fair_load.h"
#include "sim/scarce_load.h"

namespace ingot::sim {
namespace {

// One answer that grows until it has nearly all pages, and another tenant's requests that fit into its share of them.
struct LongAnswer {
  EngineConfig config;
  int pages = 0;
  FairTenant giant{.name = "long", .open = 1};
  FairTenant other{.name = "short", .answer_from = 10, .answer_to = 10};

  explicit LongAnswer(uint64_t seed) {
    const auto pick = [&](uint64_t what, int low, int high) {
      return low + static_cast<int>(mix(seed, what) % static_cast<uint64_t>(high - low + 1));
    };
    const int page_rows = pick(1, 0, 1) ? 16 : 32, rows = 500 * 32;
    config = {.max_seqs = pick(2, 2, 16),
              .step_rows = pick(3, 0, 1) ? 256 : 128,
              .page_rows = page_rows,
              .prefix_cache = pick(4, 0, 3) > 0};
    pages = rows / page_rows;
    other.weight = pick(5, 1, 3);
    other.prompt_from = other.prompt_to = pick(6, 500, pick(8, 0, 1) ? 2000 : static_cast<int>(0.9 * share() * rows));
    giant.prompt_from = giant.prompt_to = pick(7, 12'000, 15'200);
    giant.answer_from = giant.answer_to = rows - 64 - giant.prompt_to;
  }
  double share() const { return other.weight / (1 + other.weight); }
  // Until it has made some tokens.
  void begin(FairLoad& load, int made) const {
    load.tenants = {giant};
    while (load.tokens["long"] < giant.prompt_to + made) load.step();
    load.model.longest_step = 0;
  }
};

// As Fairness.ANewcomersFirstToken.
TEST(Pages, ANewcomerBesideOneLongAnswer) {
  const char* text = std::getenv("INGOT_SIM_SEEDS");
  int64_t taken = 0;
  for (int seed = 0; seed < (text ? std::atoi(text) : 40); ++seed) {
    const LongAnswer s(static_cast<uint64_t>(seed));
    FairLoad alone(s.config, s.pages, 1), load(s.config, s.pages, 1);
    const double by_itself = first_token(alone, s.other);
    s.begin(load, static_cast<int>(mix(static_cast<uint64_t>(seed), 9) % 700));
    EXPECT_LE(first_token(load, s.other), 1.2 * by_itself / s.share() + load.model.longest_step) << seed;
    taken += load.core->stats().taken;
  }
  EXPECT_GT(taken, 10);
}

// One that comes again and again waits for its turn and not for the end of the answer, which goes on meanwhile.
TEST(Pages, TurnsBesideOneLongAnswer) {
  for (const int prompt : {1600, 4000, 7000}) {
    LongAnswer s(0);
    s.config = {.max_seqs = 8, .step_rows = 256, .page_rows = 32};
    s.pages = 500;
    s.giant.prompt_from = s.giant.prompt_to = 14'000;
    s.giant.answer_from = s.giant.answer_to = 1950;
    s.other.weight = 1;
    s.other.prompt_from = s.other.prompt_to = prompt;
    FairLoad alone(s.config, s.pages, 1), load(s.config, s.pages, 1);
    const double began = alone.now();
    first_token(alone, s.other);
    while (!alone.core->idle()) alone.step();
    const double by_itself = alone.now() - began;
    s.begin(load, 500);
    const double from = load.now();
    const int64_t tokens = load.tokens["long"];
    double longest = 0;
    for (int i = 0; i < 6; ++i) {
      longest = std::max(longest, first_token(load, s.other));
      for (int step = 0; step < 11; ++step) load.step();
    }
    std::printf("a prompt of %d tokens, %.3f s alone: at most %.3f s\n", prompt, by_itself, longest);
    // What it takes and what is computed again for it are as long; of both it has its share of the time.
    EXPECT_LE(longest, 2 * 1.2 * by_itself / 0.5);
    EXPECT_EQ(load.core->stats().taken, 6);
    const double decoding = static_cast<double>(load.tokens["long"] - tokens) * load.model.step_seconds;
    EXPECT_GT(decoding, 0.35 * (load.now() - from));
  }
}

// Nor does one wait that has little and asks for more of its share.
TEST(Pages, WhoHasLittleTakesMoreOfItsShare) {
  LongAnswer s(0);
  s.config = {.max_seqs = 8, .step_rows = 256, .page_rows = 32};
  FairLoad load(s.config, 500, 1);
  FairTenant little{.name = "short", .prompt_from = 20, .prompt_to = 20, .answer_from = 5000, .answer_to = 5000};
  load.submit(little);
  s.giant.prompt_from = s.giant.prompt_to = 14'000;
  s.giant.answer_from = s.giant.answer_to = 1900;
  s.begin(load, 300);
  little.prompt_from = little.prompt_to = 4000;
  FairLoad alone(s.config, 500, 1);
  EXPECT_LE(first_token(load, little), 1.2 * first_token(alone, little) / 0.5 + load.model.longest_step);
  EXPECT_EQ(load.core->stats().taken, 1);
}

// Logits of a prompt's rows cost the head's part of a row: who asks for them gets so many rows fewer.
TEST(Pages, ScoredPromptsPayForTheHead) {
  for (const double head : {0.0, 1.0}) {
    TimedModel model;
    CoreOptions options;
    options.context = 1000;
    options.logit_rows = 4;
    options.vocab = 1000;
    options.head_rows = head;
    options.groups = {{.pages = 1000}};
    options.now_ns = [&] { return model.now_ns; };
    EngineCore core(model, {.max_seqs = 8, .step_rows = 128, .page_rows = 32, .prefix_cache = false}, options);
    std::map<SeqId, std::string> open;
    std::map<std::string, int> n, ended;
    for (int step = 0; step < 3000; ++step) {
      for (const char* tenant : {"scores", "reads"}) {
        for (; n[tenant] < 6; ++n[tenant]) {
          Request r;
          r.prompt.assign(200, 7);
          r.max_tokens = 1;
          r.tenant = tenant;
          if (r.tenant == "scores") r.on_logits = [](int, std::span<const float>) {};
          open[core.submit(std::move(r)).id] = tenant;
        }
      }
      for (const Event& event : core.step()) {
        if (event.finish == FinishReason::kNone) continue;
        --n[open[event.request]];
        ++ended[open[event.request]];
      }
    }
    EXPECT_NEAR(ended["reads"] / static_cast<double>(ended["scores"]), 1 + head, 0.05 * (1 + head));
  }
}

// A tenant's many prompts leave another what it has in the cache, up to its share of it.
TEST(Pages, WhatIsKeptIsSharedByTenants) {
  Fixture f([](Fixture& x) { x.shape.groups = {{.pages = 60}}; });
  const auto ask = [&](const std::string& tenant, int first) {
    Request r = f.request(tokens_of(first, 41), 1);
    r.tenant = tenant;
    const SeqId id = f.submit(r);
    f.run();
    return f.reused[id];
  };
  ask("quiet", 1);
  for (int i = 2; i < 40; ++i) ask("flood", i);
  EXPECT_EQ(ask("quiet", 1), 40);
  EXPECT_EQ(ask("flood", 39), 40);  // who is alone may have all, and the others' rest
  EXPECT_EQ(ask("flood", 2), 0);
}

}  // namespace
}  // namespace ingot::sim
