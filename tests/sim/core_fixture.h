// The core with a scripted model, as the tests of this folder step it by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/core.h"
#include "sim/scripted_model.h"
#include "sim/scripted_workers.h"

namespace ingot::sim {

inline std::vector<int32_t> tokens_of(int first, int n) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((first + i * 7) % 50);
  return tokens;
}

struct Fixture {
  Shape shape;
  EngineConfig config{.max_seqs = 4, .step_rows = 32, .page_rows = 4};
  CoreOptions options;
  ScriptedWorkers workers;  // of masks, where the test says so
  std::unique_ptr<ScriptedModel> model;
  std::unique_ptr<EngineCore> core;
  int64_t now_ns = 1;
  bool ahead = false;                                         // the model runs ahead
  std::map<SeqId, std::map<int, std::vector<int32_t>>> made;  // [request][choice]
  std::map<SeqId, FinishReason> finish;                       // of the request's last choice
  std::map<SeqId, int> reused;
  std::map<SeqId, double> queued;  // longest of its choices

  explicit Fixture(const std::function<void(Fixture&)>& change = {}) {
    shape.groups = {{.pages = 200}};
    options.context = 200;
    options.logit_rows = 4;
    options.now_ns = [this] { return now_ns; };
    if (change) change(*this);
    options.vocab = shape.vocab;
    options.groups = shape.groups;
    options.has_state = shape.has_state;
    shape.slots = config.max_seqs + options.snapshots;
    model = std::make_unique<ScriptedModel>(shape);
    model->ahead = ahead;
    core = std::make_unique<EngineCore>(*model, config, options);
  }
  Request request(std::vector<int32_t> prompt, int max_tokens) const {
    Request r;
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    return r;
  }
  SeqId submit(const Request& r) {
    const Submitted submitted = core->submit(r);
    EXPECT_EQ(submitted.refused, "");
    EXPECT_GE(submitted.id, 0);
    return submitted.id;
  }
  void step() {
    for (const Event& event : core->step()) {
      if (event.sample.token >= 0) made[event.request][event.choice].push_back(event.sample.token);
      if (event.finish != FinishReason::kNone) finish[event.request] = event.finish;
      if (event.reused > 0) reused[event.request] += event.reused;
      queued[event.request] = std::max(queued[event.request], event.queued_seconds);
    }
    now_ns += 1'000'000;
  }
  void run() {
    for (int i = 0; i < 100'000 && !core->idle(); ++i) step();
    ASSERT_TRUE(core->idle());
    for (int g = 0; g < core->pages().n_groups(); ++g) {
      EXPECT_EQ(core->pages().available(g), core->pages().total_pages(g));
    }
  }
  std::vector<int32_t> expected(const Request& r, int choice = 0) const {
    return expected_tokens(shape, r, choice, options.context);
  }
};

}  // namespace ingot::sim
