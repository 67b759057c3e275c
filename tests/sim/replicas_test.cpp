// Several engines behind a router on a published trace, in simulated time: what they find in their prefix caches beside
// one cache as large as all of them and beside taking turns, and how evenly they work. INGOT_LONG=1: the whole trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/data_test_support.h"
#include "cli/bench/trace/trace_replay.h"
#include "engine/replicas/router.h"
#include "sim/fair_load.h"

namespace ingot::sim {
namespace {

// A block of the trace is a page.
constexpr TraceScale kScale{.length = 64, .time = 1};
constexpr int kPageRows = kTraceBlockTokens / kScale.length;
constexpr int kVocab = 1000;

// Engines that serve 16 at once, and a step of 256 rows in 30 ms; or one that is as large as several and as fast.
class Replicas {
 public:
  Replicas(int engines, int pages, int as_large_as, bool routed)
      : router_({.engines = engines, .page_rows = kPageRows, .pages = pages}), tried_(static_cast<size_t>(engines)) {
    const EngineConfig config{
        .max_seqs = 16 * as_large_as, .step_rows = 256 * as_large_as, .page_rows = kPageRows, .max_waiting = 1 << 20};
    for (int e = 0; e < engines; ++e) {
      engines_.push_back(std::make_unique<Engine>(config, pages * as_large_as));
      engines_.back()->load.model.step_seconds = 0.005;
      engines_.back()->load.model.row_seconds = 0.0001 / as_large_as;
    }
    routed_ = routed;
  }

  void serve(const Trace& trace, double rate) {
    for (size_t next = 0;;) {
      Engine* first = nullptr;  // of those that have work, the one whose clock is behind
      for (const auto& engine : engines_) {
        if (!engine->load.core->idle() && (!first || engine->load.now() < first->load.now())) first = engine.get();
      }
      const bool more = next < trace.requests.size();
      const double at = more ? trace.requests[next].arrival / rate : 0;
      if (more && (!first || at <= first->load.now())) {
        send(trace.requests[next], next, at);
        ++next;
      } else if (first) {
        first->step();
      } else {
        return;
      }
    }
  }

  int64_t hits() const { return sum(&EngineStats::reused_tokens); }
  int64_t prompts() const { return sum(&EngineStats::prompt_tokens); }
  // The busiest over the mean, in rows computed.
  double busiest() const {
    int64_t most = 0;
    for (const auto& engine : engines_) most = std::max(most, engine->load.core->stats().rows);
    return static_cast<double>(most) * static_cast<double>(engines_.size()) /
           static_cast<double>(sum(&EngineStats::rows));
  }
  int64_t expected() const { return expected_; }  // hits, by the router

 private:
  struct Engine {
    Engine(const EngineConfig& config, int pages) : load(config, pages, 1) {}
    void step() {
      for (const Event& event : load.core->step()) {
        const auto it = live.find(event.request);
        it->second->take(event);
        if (event.finish != FinishReason::kNone) live.erase(it);
      }
    }
    FairLoad load;
    std::map<SeqId, std::shared_ptr<Router::Ticket>> live;
  };

  void send(const TraceRequest& from, size_t index, double at) {
    Request r;
    r.prompt = trace_prompt(from, index, kScale, kVocab);
    r.max_tokens = scaled_tokens(from.output, kScale);
    std::vector<char> tried = tried_;
    if (!routed_) {
      std::ranges::fill(tried, 1);
      tried[index % tried.size()] = 0;
    }
    std::shared_ptr<Router::Ticket> ticket = router_.assign(r, router_.address(r), tried);
    expected_ += ticket->found();
    Engine& engine = *engines_[static_cast<size_t>(ticket->engine())];
    int64_t& now = engine.load.model.now_ns;
    if (engine.load.core->idle()) now = std::max(now, static_cast<int64_t>(1e9 * at) + 1);
    const Submitted submitted = engine.load.core->submit(std::move(r), -1, now);
    ASSERT_GE(submitted.id, 0) << submitted.refused;
    engine.live[submitted.id] = std::move(ticket);
  }
  int64_t sum(int64_t EngineStats::*count) const {
    return std::accumulate(engines_.begin(), engines_.end(), int64_t{0},
                           [&](int64_t n, const auto& e) { return n + e->load.core->stats().*count; });
  }

  Router router_;
  const std::vector<char> tried_;
  bool routed_ = true;
  std::vector<std::unique_ptr<Engine>> engines_;
  int64_t expected_ = 0;
};

// `rate`: requests come so many times faster than in the trace.
void measure(const Trace& trace, int pages, double rate) {
  constexpr int kEngines = 4;
  Replicas routed(kEngines, pages, 1, true), turns(kEngines, pages, 1, false), one(1, pages, kEngines, true);
  for (Replicas* replicas : {&routed, &turns, &one}) replicas->serve(trace, rate);
  const auto percent = [](const Replicas& r) {
    return 100 * static_cast<double>(r.hits()) / static_cast<double>(r.prompts());
  };
  std::printf("%zu requests, %d pages each, rate %g: hits of one %.2f %%, routed %.2f %% (%.2f × of one, %.2f × of %s",
              trace.requests.size(), pages, rate, percent(one), percent(routed), percent(routed) / percent(one),
              percent(routed) / percent(turns), "turns); ");
  std::printf("expected %.3f × of those found; the busiest %.3f × the mean\n",
              static_cast<double>(routed.expected()) / static_cast<double>(routed.hits()), routed.busiest());
  EXPECT_GE(percent(routed), 0.9 * percent(one));
  EXPECT_GE(percent(routed), 1.5 * percent(turns));
  EXPECT_LE(routed.busiest(), 1.25);
  // What the router takes to be cached is: no more than a tenth of it is not, and not the other way round.
  EXPECT_NEAR(static_cast<double>(routed.expected()), static_cast<double>(routed.hits()),
              0.1 * static_cast<double>(routed.hits()));
}

TEST(Replicas, Mooncake) {
  const bool all = std::getenv("INGOT_LONG") != nullptr;
  const Trace trace = read_trace(test_data("traces/mooncake_conversation_trace.jsonl"), all ? 0 : 2000);
  // At three quarters of what they can and at more than they can, with pages for a third of what is ever read, and for
  // all of it.
  for (const double rate : {36.0, 60.0}) {
    for (const int pages : {3000, 10'000}) measure(trace, all ? 5 * pages : pages, rate);
  }
}

}  // namespace
}  // namespace ingot::sim
