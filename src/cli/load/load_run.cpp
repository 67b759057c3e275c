#include "cli/load/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <queue>
#include <vector>

#include "base/error.h"
#include "cli/interrupt.h"

namespace ingot {
namespace {

using State = LoadRecord::State;
constexpr double kLongestWait = 0.05;  // Ctrl-C is noticed after so long
constexpr double kProgressSeconds = 0.2;
constexpr double kUntoldRest = 1;  // s, where a rejection does not tell

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

const char* path_of(const LoadPlan& plan) { return plan.options().chat ? "/v1/chat/completions" : "/v1/completions"; }

void run_warm_up(LoadClient& client, const LoadPlan& plan, int n) {
  for (int i = 0; i < n; ++i) {
    LoadRecord record;
    // Another prompt than those of the plan: none of them may be found in the server's cache.
    LoadOptions options = plan.options();
    options.trace.clear();
    options.rate = 0;
    options.seed = ~options.seed - static_cast<uint64_t>(i);
    client.start(path_of(plan), LoadPlan(options).body(0), record);
    while (record.state == State::kOpen) {
      throw_if_interrupted();
      client.wait(kLongestWait);
    }
    if (record.state == State::kFailed || record.state == State::kLost) throw Error("[load] {}", record.problem);
  }
}

// The plan while it is carried out.
class LoadRunner {
 public:
  LoadRunner(LoadClient& client, const LoadPlan& plan, LoadRun& run)
      : client_(client), plan_(plan), run_(run), pieces_before_(client.pieces()) {}

  // Starts what is due; whether anything is left to do or to wait for.
  bool step() {
    collect();
    while (may_start()) {
      LoadRecord& record = run_.records.emplace_back();
      const size_t index = run_.records.size() - 1;
      record.due = closed() ? client_.now() : plan_.due(index);
      open_.push_back(index);
      client_.start(path_of(plan_), plan_.body(index), record, plan_.cancel(index));
    }
    return client_.open() > 0 || !all_sent();
  }

  // Seconds until something may be due.
  double until_next() const {
    if (all_sent()) return kLongestWait;
    double next = kLongestWait;
    if (!closed()) next = plan_.due(run_.records.size()) - client_.now();
    if (closed() && !resting_.empty()) next = resting_.top() - client_.now();
    return std::clamp(next, 0.0, kLongestWait);
  }

  LoadProgress progress() const {
    return {.at = client_.now(),
            .ended = run_.records.size() - client_.open(),
            .ok = ok_,
            .open = client_.open(),
            .pieces = client_.pieces() - pieces_before_};
  }

 private:
  bool closed() const { return plan_.mode() == LoadPlan::Mode::kClosed; }

  // Counts the requests that have ended and sends rejected clients to rest.
  void collect() {
    while (!resting_.empty() && resting_.top() <= client_.now()) resting_.pop();
    if (open_.size() == client_.open()) return;
    std::erase_if(open_, [&](size_t index) {
      const LoadRecord& record = run_.records[index];
      ok_ += record.state == State::kOk;
      if (closed() && record.state == State::kRejected) {
        const double told = record.retry_after < 0 ? kUntoldRest : record.retry_after;
        resting_.push(record.end + (plan_.options().rest < 0 ? told : plan_.options().rest));
      }
      return record.state != State::kOpen;
    });
  }

  bool all_sent() const {
    const bool over = plan_.options().duration > 0 && client_.now() >= plan_.options().duration;
    if (!closed()) return run_.records.size() >= plan_.requests();
    return over || (plan_.requests() > 0 && run_.records.size() >= plan_.requests());
  }

  bool may_start() const {
    if (all_sent()) return false;
    if (!closed()) return plan_.due(run_.records.size()) <= client_.now();
    return client_.open() + resting_.size() < static_cast<size_t>(plan_.options().concurrency);
  }

  LoadClient& client_;
  const LoadPlan& plan_;
  LoadRun& run_;
  std::vector<size_t> open_;                                                        // indices of records
  std::priority_queue<double, std::vector<double>, std::greater<double>> resting_;  // when they come back
  size_t ok_ = 0;
  const int64_t pieces_before_;
};

}  // namespace

LoadRun run_load(LoadClient& client, const LoadPlan& plan, int warm_up,
                 const std::function<void(const LoadProgress&)>& on_progress) {
  const InterruptGuard guard;
  run_warm_up(client, plan, warm_up);
  LoadRun run;
  LoadRunner runner(client, plan, run);
  const double cpu = cpu_seconds();
  client.restart_clock();
  double next_progress = kProgressSeconds;
  while (runner.step()) {
    throw_if_interrupted();
    client.wait(runner.until_next());
    if (client.now() < next_progress) continue;
    on_progress(runner.progress());
    next_progress = client.now() + kProgressSeconds;
  }
  run.cpu_seconds = cpu_seconds() - cpu;
  for (const LoadRecord& record : run.records) run.seconds = std::max(run.seconds, record.end);
  return run;
}

}  // namespace ingot
