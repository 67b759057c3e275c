// Several engines on one real model: their answers, their weights, and what is counted of them.
#include "engine/replicas/engines.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "engine/model/programs_test_support.h"

namespace ingot {
namespace {

using std::chrono::milliseconds;

EngineConfig config_of(int engines, int threads) {
  return {.engines = engines,
          .threads = threads,
          .max_seqs = 2 * engines,
          .step_rows = 32,
          .page_rows = 16,
          .pages = 16 * engines,
          .max_waiting = 64 * engines,
          .short_cols = 0};
}

Model load(int tp = 1, int pp = 1) {
  return Model::load(INGOT_SOURCE_DIR "/tests/data/arch/llama", {.context = 64, .tp = tp, .pp = pp});
}

Request request(int seed, int max_tokens, float temperature) {
  Request r;
  for (int i = 0; i < 5 + seed * 7 % 30; ++i) r.prompt.push_back(1 + (seed * 31 + i * 17) % 250);
  r.max_tokens = max_tokens;
  r.sampling.temperature = temperature;
  r.sampling.seed = static_cast<uint64_t>(seed);
  r.choices = temperature > 0 ? 2 : 1;
  return r;
}

// What was answered, by request and choice.
class Answers {
 public:
  std::function<void(const Event&)> reader(int index, int choices) {
    const std::lock_guard lock(mutex_);
    open_ += choices;
    return [this, index](const Event& event) {
      const std::lock_guard own(mutex_);
      if (event.sample.token >= 0) tokens_[{index, event.choice}].push_back(event.sample.token);
      if (event.finish == FinishReason::kNone) return;
      ends_[event.finish]++;
      if (--open_ == 0) ended_.notify_all();
    };
  }
  const std::map<std::pair<int, int>, std::vector<int32_t>>& await() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return open_ == 0; });
    return tokens_;
  }
  int ends(FinishReason reason) {
    const std::lock_guard lock(mutex_);
    return ends_[reason];
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  int open_ = 0;
  std::map<std::pair<int, int>, std::vector<int32_t>> tokens_;
  std::map<FinishReason, int> ends_;
};

std::map<std::pair<int, int>, std::vector<int32_t>> ask(Engines& engines, int requests) {
  Answers answers;
  for (int i = 0; i < requests; ++i) {
    Request r = request(i, 12, i % 2 == 0 ? 0.0f : 0.9f);
    const int choices = r.choices;
    EXPECT_GE(engines.submit(std::move(r), answers.reader(i, choices)).id, 0);
  }
  return answers.await();
}

// Greedy and drawn, on ranks too.
TEST(Engines, AnswersAreThoseOfOne) {
  constexpr int kRequests = 24;
  const Model model = load();
  Engines one(model, config_of(1, 2));
  const auto expected = ask(one, kRequests);
  EXPECT_EQ(expected.size(), kRequests * 3 / 2);
  for (const auto& [engines, tp, pp] :
       {std::tuple(2, 1, 1), std::tuple(3, 1, 1), std::tuple(2, 2, 1), std::tuple(2, 1, 2), std::tuple(2, 2, 2)}) {
    const Model own = load(tp, pp);
    Engines several(own, config_of(engines, engines * tp * pp));
    ASSERT_EQ(several.size(), engines);
    EXPECT_EQ(ask(several, kRequests), expected) << engines << " engines of " << tp << " x " << pp;
    EXPECT_TRUE(several.drain(milliseconds(60'000)));
    int64_t submitted = 0;
    for (int e = 0; e < engines; ++e) {
      const EngineStats stats = several.at(e).stats();
      EXPECT_GE(stats.submitted, kRequests / engines / 2) << e;
      submitted += stats.submitted;
    }
    EXPECT_EQ(submitted, kRequests);
    EXPECT_EQ(several.stats().submitted, kRequests);
    // An engine counts anew after the step whose events were the last.
    for (int i = 0; i < 1000 && several.stats().running > 0; ++i) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(several.stats().running, 0);
  }
}

TEST(Engines, WeightsArePackedOnce) {
  const Model model = Model::random(small_llama({.hidden = 256, .head_dim = 64, .context = 64}),
                                    [](const std::string&) { return Format::kQ8_0; }, {});
  const std::shared_ptr<PackedStore> store = model.graph.packed->of(0);
  { const Engines one(model, config_of(1, 1)); }
  const int64_t bytes = store->bytes();
  EXPECT_GT(bytes, 0);
  const Engines four(model, config_of(4, 4));
  EXPECT_EQ(store->bytes(), bytes);
  EXPECT_EQ(four.stats().pages, 64);
  EXPECT_EQ(four.at(3).config().threads, 1);
  EXPECT_EQ(four.at(3).config().max_seqs, 2);
}

TEST(Engines, CancelsWhereverTheRequestRuns) {
  const Model model = load();
  Engines engines(model, config_of(2, 2));
  Answers answers;
  std::vector<SeqId> ids;
  for (int i = 0; i < 8; ++i) {
    Request r = request(i, 30, 0);
    r.prompt.resize(5);
    ids.push_back(engines.submit(std::move(r), answers.reader(i, 1)).id);
  }
  for (size_t i = 0; i < ids.size(); i += 2) engines.cancel(ids[i]);
  engines.cancel(ids[1], 0);
  const auto tokens = answers.await();
  for (int i = 3; i < 8; i += 2) EXPECT_EQ(tokens.at({i, 0}).size(), 30u);
  EXPECT_GE(answers.ends(FinishReason::kLength), 3);
  EXPECT_EQ(answers.ends(FinishReason::kLength) + answers.ends(FinishReason::kCancelled), 8);
  EXPECT_GE(answers.ends(FinishReason::kCancelled), 1);
  engines.call([](LocalEngine& local) {
    EXPECT_TRUE(local.idle());
    EXPECT_EQ(local.core().pages().available(0), local.core().pages().total_pages(0));
  });
}

// A queue of one engine that is full is no reason to send anybody away.
TEST(Engines, AreBusyTogether) {
  const Model model = load();
  EngineConfig config = config_of(2, 2);
  config.max_seqs = 2;
  config.max_waiting = 4;
  Engines engines(model, config);
  Answers answers;
  int in = 0, busy = 0;
  // Nothing is taken from the queues meanwhile.
  engines.at(0).call([&](LocalEngine&) {
    engines.at(1).call([&](LocalEngine&) {
      for (int i = 0; i < 20; ++i) {
        Request r = request(1, 4, 0);  // all of them alike: the same engine is the best for each
        const std::function<void(const Event&)> none = [](const Event&) {};
        Submitted submitted = engines.submit(std::move(r), none);
        in += submitted.id >= 0;
        busy += submitted.busy;
      }
    });
  });
  EXPECT_EQ(in, 2 + 4);
  EXPECT_EQ(busy, 14);
  EXPECT_EQ(engines.stats().busy, 14);
  EXPECT_TRUE(engines.drain(milliseconds(60'000)));
  EXPECT_TRUE(engines.submit(request(1, 4, 0), [](const Event&) {}).busy);
  EXPECT_EQ(engines.at(0).stats().submitted, 3);
  EXPECT_EQ(engines.at(1).stats().submitted, 3);
}

TEST(Engines, RefuseWhatNoneCanServe) {
  const Model model = load();
  Engines engines(model, config_of(2, 2));
  Request r = request(1, 4, 0);
  r.choices = -3;
  EXPECT_EQ(engines.submit(std::move(r), [](const Event&) {}).refused, "-3 choices, expected 1 to 128");
  EXPECT_EQ(engines.submit(Request{}, [](const Event&) {}).refused, "the prompt is empty");
  EXPECT_EQ(engines.stats().refused, 2);
}

TEST(Engines, CountsThatDoNotFit) {
  const auto error = [](EngineConfig config, int ranks) -> std::string {
    try {
      check_engines(config, ranks);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  EngineConfig config = config_of(2, 4);
  EXPECT_EQ(error(config, 2), "");
  EXPECT_EQ(error(config, 3), "[dp] 2 engines of 3 ranks each need 6 threads, and there are 4");
  config.threads = 1;
  EXPECT_EQ(error(config, 1), "[dp] 2 engines of 1 rank each need 2 threads, and there are 1");
  config.threads = 2;
  config.max_seqs = 1;
  EXPECT_EQ(error(config, 1), "[dp] 2 engines, and 1 requests may run at once: each engine needs one");
  config.device.cuda = 0;
  EXPECT_EQ(error(config, 1), "[dp] several engines are the CPU's: --device cpu");
}

}  // namespace
}  // namespace ingot
