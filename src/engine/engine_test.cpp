#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/sampler.h"

namespace ingot {
namespace {

const std::string& checkpoint() {
  static const std::string path = INGOT_SOURCE_DIR "/tests/data/arch/llama";
  return path;
}

struct Fixture {
  Model model = Model::load(checkpoint(), {.context = 64});
  Engine engine{model, {.threads = 1, .max_seqs = 3, .step_rows = 32, .page_rows = 16}};

  Request request(std::vector<int32_t> prompt, int max_tokens) const {
    Request r;
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0;
    return r;
  }
  // The events of a seq until the engine has nothing left to do.
  std::vector<Event> finish() {
    std::vector<Event> all;
    while (!engine.idle()) {
      for (const Event& event : engine.step()) all.push_back(event);
    }
    return all;
  }
  void expect_all_free() {
    for (int g = 0; g < engine.pages().n_groups(); ++g) {
      EXPECT_EQ(engine.pages().free_pages(g), engine.pages().total_pages(g));
    }
  }
};

TEST(Engine, RefusesWhatCanNeverBeServed) {
  Fixture f;
  const auto refused = [&](Request r) { return f.engine.submit(std::move(r)).refused; };
  EXPECT_EQ(refused(f.request({}, 1)), "the prompt is empty");
  EXPECT_EQ(refused(f.request(std::vector<int32_t>(64, 1), 1)), "the prompt has 64 tokens, the context is 64");
  EXPECT_EQ(refused(f.request(std::vector<int32_t>(64, 1), 0)), "");  // reading alone fits
  EXPECT_EQ(refused(f.request({1, 256}, 1)), "token 256 is outside the vocabulary of 256");
  EXPECT_EQ(refused(f.request({-1}, 1)), "token -1 is outside the vocabulary of 256");
  EXPECT_EQ(refused(f.request({1}, -5)), "max_tokens is -5");
  Request bad = f.request({1}, 1);
  bad.sampling.temperature = std::nanf("");
  EXPECT_EQ(refused(bad), "temperature is nan, expected 0 to 1000000");
}

TEST(Engine, ChecksEverySamplingParameter) {
  const auto wrong = [](auto&& change) {
    SamplingParams params;
    change(params);
    return check_sampling(params, 100);
  };
  EXPECT_EQ(check_sampling({}, 100), "");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_NE(wrong([](SamplingParams& p) { p.temperature = -1; }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.temperature = kInfinity; }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.top_p = 1.5f; }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.min_p = std::nanf(""); }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.repetition_penalty = 0; }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.top_k = -1; }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.n_logprobs = 101; }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.logit_bias = {{100, 1.0f}}; }), "");
  EXPECT_NE(wrong([](SamplingParams& p) { p.logit_bias = {{1, std::nanf("")}}; }), "");
}

TEST(Engine, EndsByLengthStopAndContext) {
  Fixture f;
  ASSERT_EQ(f.engine.submit(f.request({1, 2, 3}, 5)).refused, "");
  std::vector<Event> events = f.finish();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events.back().finish, FinishReason::kLength);

  Request stop = f.request({1, 2, 3}, 5);
  stop.end_tokens = {events[2].sample.token};
  f.engine.submit(std::move(stop));
  const std::vector<Event> stopped = f.finish();
  ASSERT_FALSE(stopped.empty());
  EXPECT_LE(stopped.size(), 3u);
  EXPECT_EQ(stopped.back().finish, FinishReason::kStop);

  f.engine.submit(f.request(std::vector<int32_t>(60, 7), -1));
  events = f.finish();
  EXPECT_EQ(events.size(), 4u);  // 60 + 4 positions
  EXPECT_EQ(events.back().finish, FinishReason::kLength);
  f.expect_all_free();
}

TEST(Engine, CancelAtAnyPointLeavesNothingBehind) {
  for (int steps = 0; steps < 6; ++steps) {
    Fixture f;
    const SeqId victim = f.engine.submit(f.request(std::vector<int32_t>(50, 3), 10)).id;
    const SeqId other = f.engine.submit(f.request({5, 6}, 10)).id;
    std::vector<int32_t> tokens;
    const auto collect = [&](std::span<const Event> events) {
      for (const Event& event : events) {
        if (event.seq == other) tokens.push_back(event.sample.token);
      }
    };
    for (int i = 0; i < steps; ++i) collect(f.engine.step());
    f.engine.cancel(victim);
    while (!f.engine.idle()) collect(f.engine.step());
    f.expect_all_free();
    Fixture alone;
    alone.engine.submit(alone.request({5, 6}, 10));
    std::vector<int32_t> expected;
    for (const Event& event : alone.finish()) expected.push_back(event.sample.token);
    EXPECT_EQ(tokens, expected) << "cancelled after " << steps << " steps";
  }
}

TEST(Engine, LogprobsComeWithTheToken) {
  Fixture f;
  Request r = f.request({9, 8, 7}, 3);
  r.sampling.n_logprobs = 4;
  f.engine.submit(std::move(r));
  for (const Event& event : f.finish()) {
    ASSERT_EQ(event.sample.top.size(), 4u);
    EXPECT_EQ(event.sample.top[0].token, event.sample.token);  // greedy
    EXPECT_FLOAT_EQ(event.sample.top[0].logprob, event.sample.logprob);
    EXPECT_LE(event.sample.logprob, 0);
  }
}

}  // namespace
}  // namespace ingot
