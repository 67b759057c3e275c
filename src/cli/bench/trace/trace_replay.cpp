#include "cli/bench/trace/trace_replay.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cli/interrupt.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kFirstSampleSeconds = 0.05;
constexpr double kLongestSleep = 0.02;  // Ctrl-C is noticed after so long

// Every bit of the result depends on every bit of `x`: two rounds of multiply and fold.
uint64_t mixed(uint64_t x) {
  for (const uint64_t odd : {0x9e3779b97f4a7c15u, 0xd1342543de82ef95u}) {
    x = (x ^ (x >> 31)) * odd;
    x ^= x >> 29;
  }
  return x;
}

// What the engine's thread writes; shared with it, since the engine may outlive a replay that was interrupted.
struct Shared {
  std::vector<TraceRecord> records;
  std::atomic<size_t> ended = 0;  // a record is read by others only after it was counted here
  Clock::time_point start;

  double now() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

  void take(TraceRecord& record, const Event& event) {
    const double at = now();
    if (event.sample.token >= 0) {
      if (record.tokens++ == 0) {
        record.first = at;
        record.reused = event.reused;
      } else {
        record.gaps.push_back(static_cast<float>(at - record.last));
      }
      record.last = at;
    }
    if (event.finish == FinishReason::kNone) return;
    record.state = event.finish == FinishReason::kLength ? TraceRecord::State::kFinished : TraceRecord::State::kFailed;
    ended.fetch_add(1, std::memory_order_release);
  }
};

EngineStats stats_of(Engine& engine) {
  EngineStats stats;
  engine.call([&](LocalEngine& local) { stats = local.core().stats(); });
  return stats;
}

EngineStats minus(EngineStats stats, const EngineStats& before) {
  for (int64_t EngineStats::*counter :
       {&EngineStats::steps, &EngineStats::failed_steps, &EngineStats::rows, &EngineStats::tokens,
        &EngineStats::prompt_tokens, &EngineStats::reused_tokens, &EngineStats::preempted, &EngineStats::evicted}) {
    stats.*counter -= before.*counter;
  }
  return stats;
}

void warm_up(Engine& engine) {
  const int context = engine.model().context;
  Request request;
  for (int i = 0; i < std::min(engine.config().step_rows, context / 2); ++i) request.prompt.push_back(0);
  if (request.prompt.empty()) return;
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  request.reuse_prefix = false;
  const Submission seq = engine.submit(std::move(request));
  if (!seq.stream) return;  // too long for few pages: then the trace's own requests are shorter
  while (seq.stream->next()) {
  }
}

// Samples at equal distances whose number stays bounded: when there are too many, every other one goes and the
// distance doubles.
class Sampler {
 public:
  double due() const { return due_; }
  void add(TraceSample sample) {
    samples_.push_back(sample);
    if (samples_.size() >= kMaxTraceSamples) {
      for (size_t i = 0; i < samples_.size() / 2; ++i) samples_[i] = samples_[2 * i + 1];
      samples_.resize(samples_.size() / 2);
      every_ *= 2;
    }
    due_ = sample.at + every_;
  }
  std::vector<TraceSample> take() { return std::move(samples_); }

 private:
  std::vector<TraceSample> samples_;
  double every_ = kFirstSampleSeconds;
  double due_ = 0;
};

TraceSample sample_of(const EngineStats& stats, const EngineStats& before, double at) {
  return {.at = at,
          .running = stats.running,
          .waiting = stats.waiting,
          .tokens = stats.tokens - before.tokens,
          .held_pages = stats.pages - stats.free_pages - stats.cached_pages,
          .cached_pages = stats.cached_pages};
}

void send(Engine& engine, const std::shared_ptr<Shared>& shared, size_t index, const TraceRequest& from,
          const TraceScale& scale) {
  TraceRecord& record = shared->records[index];
  Request request;
  request.prompt = trace_prompt(from, index, scale, engine.model().hp.vocab);
  request.max_tokens = scaled_tokens(from.output, scale);
  request.sampling.temperature = 0;
  record.prompt = static_cast<int>(request.prompt.size());
  record.sent = shared->now();
  const Submitted submitted =
      engine.submit(std::move(request), [shared, &record](const Event& event) { shared->take(record, event); });
  if (submitted.id >= 0) return;
  record.state = submitted.busy ? TraceRecord::State::kBusy : TraceRecord::State::kRefused;
  record.late = submitted.late;
  record.refused = submitted.refused;
  shared->ended.fetch_add(1, std::memory_order_release);
}

}  // namespace

int scaled_tokens(int tokens, const TraceScale& scale) { return std::max(1, tokens / scale.length); }

std::vector<int32_t> trace_prompt(const TraceRequest& request, size_t index, const TraceScale& scale, int vocab) {
  std::vector<int32_t> prompt;
  const int n = scaled_tokens(request.prompt, scale);
  prompt.reserve(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    const int64_t from = int64_t{i} * scale.length;  // the token's place in the trace's prompt
    const auto block = static_cast<size_t>(from / kTraceBlockTokens);
    const bool known = block < request.blocks.size();
    const uint64_t key = known ? static_cast<uint64_t>(request.blocks[block]) : ~static_cast<uint64_t>(index);
    const int64_t place = known ? from % kTraceBlockTokens : i;
    prompt.push_back(
        static_cast<int32_t>(mixed(mixed(key) + static_cast<uint64_t>(place)) % static_cast<uint64_t>(vocab)));
  }
  return prompt;
}

TraceRun replay_trace(Engine& engine, const Trace& trace, const TraceScale& scale,
                      const std::function<void(size_t ended, const TraceSample&)>& on_sample) {
  const InterruptGuard guard;
  warm_up(engine);
  const EngineStats before = stats_of(engine);
  const size_t n = trace.requests.size();
  const auto shared = std::make_shared<Shared>();
  shared->records.resize(n);
  for (size_t i = 0; i < n; ++i) shared->records[i].due = trace.requests[i].arrival / scale.time;
  shared->start = Clock::now();
  Sampler sampler;
  size_t next = 0;
  while (shared->ended.load(std::memory_order_acquire) < n) {
    throw_if_interrupted();
    double now = shared->now();
    for (; next < n && shared->records[next].due <= now; now = shared->now()) {
      send(engine, shared, next, trace.requests[next], scale);
      ++next;
    }
    if (now >= sampler.due()) {
      const TraceSample sample = sample_of(engine.stats(), before, now);
      sampler.add(sample);
      on_sample(shared->ended.load(), sample);
    }
    const double until =
        std::min({next < n ? shared->records[next].due : now + kLongestSleep, sampler.due(), now + kLongestSleep});
    if (until > now) std::this_thread::sleep_for(std::chrono::duration<double>(until - now));
  }
  TraceRun run;
  const EngineStats after = stats_of(engine);
  sampler.add(sample_of(after, before, shared->now()));
  run.stats = minus(after, before);
  run.samples = sampler.take();
  run.records = std::move(shared->records);
  for (const TraceRecord& record : run.records) run.seconds = std::max({run.seconds, record.sent, record.last});
  return run;
}

}  // namespace ingot
