// What the engine promises to many users at once, on the real core with a scripted model. INGOT_LONG=1 runs the long
// forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <unordered_set>

#include "base/data_test_support.h"
#include "files/json.h"
#include "sim/scripted_model.h"
#include "sim/simulation.h"

namespace ingot::sim {
namespace {

bool long_form() { return std::getenv("INGOT_LONG") != nullptr; }

std::vector<int32_t> tokens_of(uint64_t seed, int n, int vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back(static_cast<int32_t>(mix(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab)));
  }
  return tokens;
}

Request request_of(std::vector<int32_t> prompt, int max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  return r;
}

CoreOptions options_of(const Shape& shape, int context, int logit_rows = 4) {
  CoreOptions options;
  options.context = context;
  options.logit_rows = logit_rows;
  options.vocab = shape.vocab;
  options.groups = shape.groups;
  return options;
}

struct MooncakeRequest {
  int input = 0, output = 0;
  std::vector<int> blocks;
};

std::vector<MooncakeRequest> read_mooncake(const std::string& path, size_t most) {
  std::vector<MooncakeRequest> trace;
  std::ifstream file(path);
  for (std::string line; trace.size() < most && std::getline(file, line);) {
    const JsonObject object = as_object(parse_json(line, "trace"), "trace");
    MooncakeRequest r;
    r.input = static_cast<int>(as_int(*find(object, "input_length"), "input_length"));
    r.output = static_cast<int>(as_int(*find(object, "output_length"), "output_length"));
    for (const Json& id : *find_array(object, "hash_ids")) r.blocks.push_back(static_cast<int>(as_int(id, "hash_ids")));
    trace.push_back(std::move(r));
  }
  return trace;
}

// One token for 16, so that a block of 512 is a page of 32.
TEST(Promises, PrefixReplay) {
  const std::string path = test_data("traces/mooncake_conversation_trace.jsonl");
  const std::vector<MooncakeRequest> trace = read_mooncake(path, long_form() ? 1'000'000 : 2'000);
  constexpr int kRows = 32;
  int64_t tokens = 0, seen_tokens = 0;
  // A page is what its block is after all blocks before it: the trace has equal ids after different beginnings, which
  // nobody can share.
  std::unordered_set<uint64_t> seen;
  std::vector<Request> requests;
  for (const MooncakeRequest& t : trace) {
    const int n = std::max(1, t.input / 16);
    std::vector<int32_t> prompt;
    uint64_t before = 0;
    for (const int block : t.blocks) {
      before = mix(before, static_cast<uint64_t>(block));
      const int rows = std::min(kRows, n - static_cast<int>(prompt.size()));
      const bool full = rows == kRows;
      for (const int32_t token : tokens_of(static_cast<uint64_t>(block), std::max(rows, 0), 50))
        prompt.push_back(token);
      if (full && !seen.insert(before).second) seen_tokens += kRows;
    }
    tokens += static_cast<int64_t>(prompt.size());
    requests.push_back(request_of(std::move(prompt), std::max(1, t.output / 16)));
  }
  Shape shape;
  shape.page_rows = kRows;
  shape.groups = {{.pages = static_cast<int>(seen.size() + 4 * requests.size()) + 2000}};
  shape.slots = 64;
  ScriptedModel model(shape);
  EngineCore core(model, {.max_seqs = 64, .step_rows = 4096, .page_rows = kRows}, options_of(shape, 16384));
  size_t next = 0;
  std::map<SeqId, std::pair<size_t, size_t>> live;  // request, tokens so far
  std::vector<std::vector<int32_t>> expected(requests.size());
  int64_t checked = 0;
  while (next < requests.size() || !core.idle()) {
    while (next < requests.size() && live.size() < 64) {
      // Every 20th answer is held against the model alone: none may have been given a wrong page.
      if (next % 20 == 0) expected[next] = expected_tokens(shape, requests[next], 0, 16384);
      const Submitted submitted = core.submit(requests[next]);
      ASSERT_EQ(submitted.refused, "");
      live[submitted.id] = {next++, 0};
    }
    for (const Event& event : core.step()) {
      auto& [index, n] = live.at(event.request);
      if (index % 20 == 0) {
        ASSERT_EQ(event.sample.token, expected[index].at(n++));
        ++checked;
      }
      if (event.finish != FinishReason::kNone) live.erase(event.request);
    }
  }
  const double ideal = static_cast<double>(seen_tokens) / static_cast<double>(tokens);
  const double hits = static_cast<double>(core.stats().reused_tokens) / static_cast<double>(core.stats().prompt_tokens);
  RecordProperty("ideal_percent", std::to_string(100 * ideal));
  RecordProperty("hit_percent", std::to_string(100 * hits));
  std::printf("%zu requests: ideal %.2f %%, hits %.2f %%, %lld tokens checked\n", requests.size(), 100 * ideal,
              100 * hits, static_cast<long long>(checked));
  EXPECT_GE(hits, 0.95 * ideal);
  EXPECT_GT(checked, 0);
}

// One long request among fifty short ones, under every priority of the long one.
TEST(Promises, Progress) {
  for (const int priority : {-3, 0, 3}) {
    Shape shape;
    shape.groups = {{.pages = 400}};
    shape.page_rows = 16;
    shape.slots = 8;
    int64_t now_ns = 1;
    CoreOptions options = options_of(shape, 6000);
    options.now_ns = [&] { return now_ns; };
    ScriptedModel model(shape);
    model.on_step = [&](const StepWork& work) { now_ns += 1'000'000 + 100'000 * work.batch.n_rows; };
    EngineCore core(model, {.max_seqs = 8, .step_rows = 64, .page_rows = 16, .gap_ms = 10}, options);
    Request big = request_of(tokens_of(1, 4000, 50), 1000);
    big.priority = priority;
    core.submit(big);
    std::map<SeqId, int64_t> first;
    for (int i = 0; i < 50; ++i)
      first[core.submit(request_of(tokens_of(100 + static_cast<uint64_t>(i), 20, 50), 20)).id] = 0;
    while (!core.idle()) {
      const int64_t launched = model.launched;
      for (const Event& event : core.step()) {
        if (const auto it = first.find(event.request); it != first.end() && it->second == 0) it->second = now_ns;
      }
      ASSERT_GT(model.launched, launched) << "nothing ran though requests wait";
    }
    std::vector<int64_t> waits;
    for (const auto& [id, at] : first) waits.push_back(at);
    std::ranges::sort(waits);
    EXPECT_GT(waits.front(), 0);
    EXPECT_LE(waits.back(), 10 * waits[waits.size() / 2]) << "priority " << priority;
  }
}

// Cancels while queued, reading the prompt, decoding and at the last token.
TEST(Promises, Cancels) {
  std::mt19937 random(5);
  Shape shape;
  shape.groups = {{.pages = 60}, {.pages = 60, .window = 9}};
  shape.slots = 6;
  ScriptedModel model(shape);
  EngineCore core(model, {.max_seqs = 6, .step_rows = 24, .page_rows = 4}, options_of(shape, 100));
  std::map<SeqId, std::pair<std::vector<int32_t>, size_t>> kept;  // expected, got
  std::map<SeqId, int> doomed;                                    // steps to live
  int cancelled = 0;
  while (cancelled < 5000) {
    if (core.stats().waiting < 10) {
      const Request r = request_of(tokens_of(random() % 6, 4 + static_cast<int>(random() % 40), 50),
                                   1 + static_cast<int>(random() % 12));
      const SeqId id = core.submit(r).id;
      if (random() % 8 == 0) {
        kept[id] = {expected_tokens(shape, r, 0, 100), 0};
      } else {
        doomed[id] = static_cast<int>(random() % 30);
      }
    }
    for (const Event& event : core.step()) {
      if (const auto it = kept.find(event.request); it != kept.end()) {
        ASSERT_EQ(event.sample.token, it->second.first.at(it->second.second++));
      } else if (event.finish != FinishReason::kNone) {
        doomed.erase(event.request);
      }
    }
    for (auto it = doomed.begin(); it != doomed.end();) {
      if (it->second-- > 0) {
        ++it;
        continue;
      }
      ASSERT_TRUE(core.cancel(it->first));
      ++cancelled;
      it = doomed.erase(it);
    }
  }
  for (const auto& [id, steps] : doomed) core.cancel(id);
  for (int i = 0; i < 10'000 && !core.idle(); ++i) {
    for (const Event& event : core.step()) {
      ASSERT_EQ(event.sample.token, kept.at(event.request).first.at(kept.at(event.request).second++));
    }
  }
  for (const auto& [id, tokens] : kept) EXPECT_EQ(tokens.second, tokens.first.size());
  for (int g = 0; g < 2; ++g) EXPECT_EQ(core.pages().available(g), core.pages().total_pages(g));
}

// Two beginnings, and one request of three choices.
std::vector<Request> few_requests() {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 4; ++i) {
    requests.push_back(request_of(tokens_of(i % 2, 12 + 3 * static_cast<int>(i), 50), 8));
    requests.back().choices = i == 3 ? 3 : 1;
  }
  return requests;
}

// Whichever allocation fails, from the first submission to the last token, the engine lives: the request that
// met it is refused or ends with an error, all others are answered as ever, and nothing leaks (the sanitizers look).
TEST(Promises, NthAllocationFails) {
  Shape shape;
  shape.groups = {{.pages = 30}, {.pages = 12, .window = 5}};
  shape.slots = 3;
  const std::vector<Request> requests = few_requests();
  std::vector<std::vector<std::vector<int32_t>>> expected;
  for (const Request& r : requests) {
    expected.emplace_back();
    for (int c = 0; c < r.choices; ++c) expected.back().push_back(expected_tokens(shape, r, c, 60));
  }
  int tried = 0, failed = 0;
  for (bool fired = true; fired && tried < 5000; ++tried) {
    ScriptedModel model(shape);
    model.ahead = tried % 2 == 0;
    int64_t now_ns = 1;
    CoreOptions options = options_of(shape, 60);
    options.now_ns = [&now_ns] { return ++now_ns; };
    EngineCore core(model, {.max_seqs = 3, .step_rows = 16, .page_rows = 4}, options);
    // What the model itself needs is not the engine's to fail.
    model.on_step = [](const StepWork&) { pause_allocation_failure(); };
    core.damaged = [] {
      resume_allocation_failure();
      return false;
    };
    std::vector<SeqId> ids(requests.size(), -1);
    int met = 0;
    fail_allocation(tried);
    for (size_t i = 0; i < requests.size(); ++i) {
      try {
        Request copy = requests[i];
        ids[i] = core.submit(std::move(copy)).id;
      } catch (const std::bad_alloc&) {
        ++met;
      }
    }
    std::map<std::pair<SeqId, int>, size_t> got;
    for (int step = 0; step < 1000 && !core.idle(); ++step) {
      const std::span<Event> events = core.step();
      pause_allocation_failure();
      for (const Event& event : events) {
        const auto i = static_cast<size_t>(std::ranges::find(ids, event.request) - ids.begin());
        const std::vector<int32_t>& want = expected.at(i)[static_cast<size_t>(event.choice)];
        size_t& n = got[{event.request, event.choice}];
        if (event.sample.token >= 0) {
          ASSERT_EQ(event.sample.token, want.at(n++)) << tried;
        }
        if (event.finish == FinishReason::kError) ++met;
        if (event.finish == FinishReason::kLength) {
          ASSERT_EQ(n, want.size()) << tried;
        }
      }
      resume_allocation_failure();
    }
    fired = allocation_failed();
    fail_allocation(-1);
    ASSERT_TRUE(core.idle()) << tried;
    ASSERT_LE(met, 1) << tried << ": one allocation failed and so many requests";
    for (int g = 0; g < 2; ++g) ASSERT_EQ(core.pages().available(g), core.pages().total_pages(g)) << tried;
    failed += met;
  }
  std::printf("%d allocations failed one by one, %d requests ended\n", tried - 1, failed);
  EXPECT_GT(tried, 50);
  EXPECT_GT(failed, 0);
}

// How long a tenant waits tells nothing of what another has asked.
TEST(Promises, TenantsCannotTell) {
  Shape shape;
  shape.groups = {{.pages = 4000}};
  shape.slots = 2;
  ScriptedModel model(shape);
  int64_t rows = 0;
  model.on_step = [&](const StepWork& work) { rows += work.batch.n_rows; };
  EngineCore core(model, {.max_seqs = 2, .step_rows = 32, .page_rows = 4}, options_of(shape, 200));
  const auto cost = [&](const std::string& tenant, uint64_t seed) {
    Request r = request_of(tokens_of(seed, 60, 50), 1);
    r.tenant = tenant;
    const int64_t before = rows;
    core.submit(std::move(r));
    while (!core.idle()) core.step();
    return rows - before;
  };
  for (uint64_t i = 0; i < 1000; ++i) {
    cost("victim", i);
    const int64_t asked_before = cost("spy", i), never_asked = cost("spy", 100'000 + i);
    ASSERT_EQ(asked_before, never_asked);
  }
  EXPECT_LT(cost("victim", 999), 60);  // it finds its own
}

// Scheduling, batch and bookkeeping of a step with 256 seqs; printed, never asserted.
TEST(Promises, OwnCostOfAStep) {
  struct Null : StepModel {
    StepWork* work = nullptr;
    void launch(StepWork& w) override { work = &w; }
    std::string wait() override {
      for (SampleResult& result : work->results) result.token = 1;
      return {};
    }
  } model;
  Shape shape;
  shape.groups = {{.pages = 20'000}};
  EngineCore core(model, {.max_seqs = 256, .step_rows = 512, .page_rows = 64}, options_of(shape, 4096, 16));
  for (uint64_t i = 0; i < 256; ++i) core.submit(request_of(tokens_of(i, 500, 50), 2000));
  while (core.stats().waiting > 0) core.step();
  for (int i = 0; i < 300; ++i) core.step();
  std::vector<double> micros;
  for (int i = 0; i < 500; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const size_t events = core.step().size();
    micros.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    ASSERT_EQ(events, 256u);
  }
  std::ranges::sort(micros);
  std::printf("256 seqs: median %.1f us, p99 %.1f us a step\n", micros[250], micros[495]);
}

}  // namespace
}  // namespace ingot::sim
