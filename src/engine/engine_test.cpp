// The border of the engine: threads that submit, read and cancel, on a real model.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <future>
#include <limits>
#include <map>
#include <random>

#include "engine/sampler.h"

namespace ingot {
namespace {

using std::chrono::milliseconds;

struct Fixture {
  Model model = Model::load(INGOT_SOURCE_DIR "/tests/data/arch/llama", {.context = 64});
  Engine engine;

  explicit Fixture(const EngineConfig& config = {.threads = 1, .max_seqs = 3, .step_rows = 32, .page_rows = 16},
                   std::function<void(const StepFacts&)> on_step = {})
      : engine(model, config, std::move(on_step)) {}

  static Request request(std::vector<int32_t> prompt, int max_tokens) {
    Request r;
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0;
    return r;
  }
  std::vector<Event> all(const Submission& submission) {
    std::vector<Event> events;
    while (const std::optional<Event> event = submission.stream->next()) events.push_back(*event);
    return events;
  }
  std::vector<int32_t> tokens(const Submission& submission) {
    std::vector<int32_t> made;
    for (const Event& event : all(submission)) {
      if (event.sample.token >= 0) made.push_back(event.sample.token);
    }
    return made;
  }
  void expect_all_free() {
    engine.call([](LocalEngine& local) {
      const KvPages& pages = local.core().pages();
      EXPECT_TRUE(local.idle());
      for (int g = 0; g < pages.n_groups(); ++g) EXPECT_EQ(pages.available(g), pages.total_pages(g));
    });
  }
};

// The head's 256 · 64 weights over the 2 · 36,864 of the layers; at most those of the last layer are run with the head.
TEST(Engine, KnowsWhatTheHeadCosts) {
  Fixture f;
  f.engine.call([](LocalEngine& local) {
    const double rows = local.core().options().head_rows;
    EXPECT_GT(rows, 0.9 * 16'384 / 73'728);
    EXPECT_LT(rows, 1.1 * (16'384 + 36'864) / 36'864);
  });
}

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
  EXPECT_EQ(refused(bad), "temperature is nan, expected 0 to 2");
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
  const std::vector<Event> events = f.all(f.engine.submit(f.request({1, 2, 3}, 5)));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events.back().finish, FinishReason::kLength);

  Request stop = f.request({1, 2, 3}, 5);
  stop.end_tokens = {events[2].sample.token};
  const std::vector<Event> stopped = f.all(f.engine.submit(stop));
  ASSERT_FALSE(stopped.empty());
  EXPECT_LE(stopped.size(), 3u);
  EXPECT_EQ(stopped.back().finish, FinishReason::kStop);

  const std::vector<Event> full = f.all(f.engine.submit(f.request(std::vector<int32_t>(60, 7), -1)));
  EXPECT_EQ(full.size(), 4u);  // 60 + 4 positions
  EXPECT_EQ(full.back().finish, FinishReason::kLength);
  f.expect_all_free();
}

TEST(Engine, LogprobsComeWithTheToken) {
  Fixture f;
  Request r = f.request({9, 8, 7}, 3);
  r.sampling.n_logprobs = 4;
  for (const Event& event : f.all(f.engine.submit(r))) {
    ASSERT_EQ(event.sample.top.size(), 4u);
    EXPECT_EQ(event.sample.top[0].token, event.sample.token);  // greedy
    EXPECT_FLOAT_EQ(event.sample.top[0].logprob, event.sample.logprob);
    EXPECT_LE(event.sample.logprob, 0);
  }
}

// At the thread-safe border: threads submit and cancel at any moment; who is not cancelled gets what it gets alone.
TEST(Engine, CancelsOfManyThreadsLeaveNothingBehind) {
  Fixture f({.threads = 2, .max_seqs = 3, .step_rows = 32, .page_rows = 16, .pages = 10});
  std::vector<std::vector<int32_t>> expected;
  for (int32_t i = 0; i < 4; ++i) expected.push_back(f.tokens(f.engine.submit(f.request({i, 2, 3, i}, 12))));
  std::atomic<int> wrong = 0, cancelled = 0;
  std::vector<std::thread> clients;
  for (unsigned t = 0; t < 4; ++t) {
    clients.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 60; ++i) {
        const auto which = static_cast<int32_t>(random() % 4);
        const Submission s = f.engine.submit(f.request({which, 2, 3, which}, 12));
        const size_t read = random() % 14;
        std::vector<int32_t> made;
        while (made.size() < read) {
          const std::optional<Event> event = s.stream->next();
          if (!event) break;
          made.push_back(event->sample.token);
        }
        if (made.size() < 12) {
          f.engine.cancel(s.id);
          ++cancelled;
          FinishReason last = FinishReason::kNone;
          while (const std::optional<Event> event = s.stream->next()) last = event->finish;
          wrong += last != FinishReason::kCancelled && last != FinishReason::kLength;
        }
        const std::vector<int32_t>& want = expected[static_cast<size_t>(which)];
        wrong += !std::equal(made.begin(), made.end(), want.begin());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(cancelled, 0);
  f.expect_all_free();
  EXPECT_GT(f.engine.stats().cancelled, 0);
}

TEST(Engine, ACallbackThatThrowsEndsItsOwnRequest) {
  Fixture f;
  std::atomic<int> seen = 0;
  f.engine.submit(f.request({4, 5}, 50), [&](const Event&) {
    if (++seen == 3) throw std::runtime_error("reader");
  });
  const Submission other = f.engine.submit(f.request({1, 2, 3}, 20));
  EXPECT_EQ(f.tokens(other).size(), 20u);
  EXPECT_TRUE(f.engine.drain(milliseconds(10'000)));
  EXPECT_EQ(seen, 3);
  f.expect_all_free();
}

TEST(Engine, DrainLetsRunningRequestsEndAndNobodyIn) {
  Fixture f;
  const Submission running = f.engine.submit(f.request({1, 2, 3}, 30));
  std::thread drain([&] { EXPECT_TRUE(f.engine.drain(milliseconds(10'000))); });
  while (!f.engine.submit(f.request({1}, 1)).busy) std::this_thread::yield();
  EXPECT_EQ(f.tokens(running).size(), 30u);
  drain.join();
  EXPECT_GT(f.engine.stats().busy, 0);
}

// At the border too one tenant's flood is its own affair; and who is past its deadline ends.
TEST(Engine, EachTenantHasItsPartOfTheQueue) {
  Fixture f({.threads = 1, .max_seqs = 1, .step_rows = 32, .page_rows = 16, .max_waiting = 6});
  std::promise<void> held, go;
  std::thread holder([&] {
    f.engine.call([&](LocalEngine&) {
      held.set_value();
      go.get_future().wait();
    });
  });
  held.get_future().wait();  // from here on nothing runs
  Request request = f.request({1, 2, 3}, 20);
  request.tenant = "flood";
  request.deadline_seconds = 1e-9;
  std::vector<Submission> flood;
  for (int i = 0; i < 20; ++i) flood.push_back(f.engine.submit(request));
  request.tenant = "other";
  request.deadline_seconds = 0;
  std::vector<Submission> others;
  for (int i = 0; i < 20; ++i) others.push_back(f.engine.submit(request));
  go.set_value();
  holder.join();
  const auto let_in = [](const Submission& s) { return s.stream != nullptr; };
  EXPECT_EQ(std::ranges::count_if(flood, let_in), 7);   // six that wait, and one that finds a free place
  EXPECT_EQ(std::ranges::count_if(others, let_in), 3);  // half of the queue
  for (const Submission& submission : flood) {
    EXPECT_NE(submission.busy, submission.stream != nullptr);
    if (submission.stream) {
      EXPECT_EQ(f.all(submission).back().finish, FinishReason::kTimeout);
    }
  }
  for (const Submission& submission : others) {
    if (submission.stream) {
      EXPECT_EQ(f.tokens(submission).size(), 20u);
    }
  }
  EXPECT_EQ(f.engine.stats().timeouts, 7);
  f.expect_all_free();
}

TEST(Engine, TheLastOneCancelsWhatIsLeft) {
  // All 60 tokens take some milliseconds: a thread that is held as long finds them made. Not a hundred times.
  FinishReason finish = FinishReason::kNone;
  for (int i = 0; i < 100 && finish != FinishReason::kCancelled; ++i) {
    std::shared_ptr<Stream> stream;
    {
      Fixture f;
      stream = f.engine.submit(f.request({1, 2, 3}, 60)).stream;
      stream->next();
    }
    std::optional<Event> last;
    while (std::optional<Event> event = stream->next()) last = event;
    ASSERT_TRUE(last);
    finish = last->finish;
  }
  EXPECT_EQ(finish, FinishReason::kCancelled);
}

TEST(Engine, OneChoiceEndsAndTheOthersAreWhatTheyWere) {
  Fixture f;
  Request r = f.request({1, 2, 3}, 20);
  r.sampling.temperature = 1;
  r.sampling.seed = 5;
  r.choices = 3;
  std::map<int, std::vector<int32_t>> whole, cut;
  for (const Event& event : f.all(f.engine.submit(r))) whole[event.choice].push_back(event.sample.token);
  const Submission s = f.engine.submit(r);
  FinishReason second = FinishReason::kNone;
  while (const std::optional<Event> event = s.stream->next()) {
    if (event->sample.token >= 0) cut[event->choice].push_back(event->sample.token);
    if (event->choice == 1 && cut[1].size() == 2) f.engine.cancel(s.id, 1);
    if (event->choice == 1 && event->finish != FinishReason::kNone) second = event->finish;
  }
  EXPECT_EQ(cut[0], whole[0]);
  EXPECT_EQ(cut[2], whole[2]);
  ASSERT_GE(cut[1].size(), 2u);
  EXPECT_TRUE(std::equal(cut[1].begin(), cut[1].end(), whole[1].begin()));
  // The engine may have been faster than the reader.
  EXPECT_EQ(second, cut[1].size() < 20 ? FinishReason::kCancelled : FinishReason::kLength);
  f.engine.cancel(s.id, 1);
  f.engine.cancel(s.id, 99);
  f.expect_all_free();
}

// What embeddings are made of: the same numbers that the model's own last hidden state has, whatever the cache holds.
TEST(Engine, HiddenStatesAreThoseOfTheModel) {
  const char* path = INGOT_SOURCE_DIR "/tests/data/arch/llama";
  Model plain = Model::load(path, {.context = 64, .keep_hidden = true});
  Model kept = Model::load(path, {.context = 64, .keep_last = true});
  Model bare = Model::load(path, {.context = 64});
  const EngineConfig config{.threads = 1, .max_seqs = 3, .step_rows = 32, .page_rows = 16};
  const Request prompt = Fixture::request({5, 9, 11, 200, 7, 5, 9, 11, 200, 7, 5, 9, 11, 200, 7, 5, 9, 11, 200, 7}, 0);
  std::vector<std::vector<float>> expected, got;
  {
    Engine engine(plain, config);
    const std::string last = "hidden." + std::to_string(plain.hp.layers);
    engine.call([&](LocalEngine& local) {
      local.device().on_body = [&](const Batch& batch, const StepOutputs& runner) {
        const Tensor& rows = runner.output(last);
        for (int r = 0; r < batch.n_rows; ++r) expected.emplace_back(rows.f32(r), rows.f32(r) + rows.cols);
      };
    });
    const Submission read = engine.submit(prompt);
    while (read.stream->next()) {
    }
  }
  ASSERT_EQ(expected.size(), prompt.prompt.size());
  Engine engine(kept, config);
  for (int i = 0; i < 2; ++i) {  // the second time all of it is in the cache
    Request r = prompt;
    got.clear();
    r.on_hidden = [&](int position, std::span<const float> row) {
      EXPECT_EQ(position, static_cast<int>(got.size()));
      got.emplace_back(row.begin(), row.end());
    };
    const Submission s = engine.submit(r);
    ASSERT_EQ(s.refused, "");
    while (s.stream->next()) {
    }
    EXPECT_EQ(got, expected);
  }
  Engine other(bare, config);
  EXPECT_EQ(other
                .submit([&] {
                  Request r = prompt;
                  r.on_hidden = [](int, std::span<const float>) {};
                  return r;
                }())
                .refused,
            "the model does not keep its hidden state");
}

TEST(Engine, TellsOfItsSteps) {
  std::atomic<int64_t> steps = 0, rows = 0, prompt_rows = 0;
  std::atomic<bool> wrong = false;
  Fixture f({.threads = 1, .max_seqs = 3, .step_rows = 32, .page_rows = 16}, [&](const StepFacts& step) {
    ++steps;
    rows += step.rows;
    prompt_rows += step.prompt_rows;
    if (step.seqs < 1 || step.seqs > 3 || step.rows < step.seqs || step.seconds < 0) wrong = true;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f.tokens(f.engine.submit(f.request({1, 2, 3, i}, 6))).size(), 6u);
  f.expect_all_free();  // and the last step has been told
  const EngineStats stats = f.engine.stats();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(steps, stats.steps);
  EXPECT_EQ(rows, stats.rows);
  EXPECT_EQ(prompt_rows, 12);
  EXPECT_GT(stats.busy_seconds, 0);
  EXPECT_GT(stats.kv_bytes, 0);
}

// At the thread-safe border: while nothing moves, the time since the last step grows; it is nothing when nobody waits.
TEST(Engine, KnowsHowLongItHasMadeNoStep) {
  Fixture f;
  EXPECT_EQ(f.engine.stalled_seconds(), 0);
  std::promise<void> go;
  std::shared_future<void> may_go = go.get_future().share();
  std::atomic<bool> waits = false;
  f.engine.submit(f.request({1, 2, 3}, 4), [&waits, may_go](const Event&) {
    waits = true;
    may_go.wait();
  });
  while (!waits) std::this_thread::yield();  // from here on no step ends
  const auto start = std::chrono::steady_clock::now();
  while (f.engine.stalled_seconds() < 0.05 && std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_GE(f.engine.stalled_seconds(), 0.05);
  go.set_value();
  EXPECT_TRUE(f.engine.drain(milliseconds(60'000)));
  EXPECT_EQ(f.engine.stalled_seconds(), 0);
}

TEST(Engine, IdleUsesNoCpu) {
  Fixture f;
  f.tokens(f.engine.submit(f.request({1, 2, 3}, 5)));
  std::this_thread::sleep_for(milliseconds(50));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.03);
}

}  // namespace
}  // namespace ingot
