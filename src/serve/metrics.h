// Counters of the server in Prometheus' text format. Names and labels are fixed at compile time, but for the names of
// tenants, at most a hundred (UsageBook), and the numbers of engines: nothing a client sends becomes a label, so the
// number of series does not grow.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core.h"
#include "engine/model/device_model.h"
#include "serve/http/http.h"
#include "serve/tenants/usage.h"

namespace ingot {

// Any thread; never waits.
class Counter {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Any thread; never waits.
class Histogram {
 public:
  static constexpr size_t kMaxBuckets = 16;
  // Upper bounds, rising. REQUIRES: at most kMaxBuckets.
  explicit Histogram(std::span<const double> bounds);
  void observe(double value);

  std::span<const double> bounds() const { return bounds_; }
  int64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  // Observations in bucket i alone; i == bounds().size(): those above all bounds.
  int64_t in_bucket(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kMaxBuckets + 1> counts_{};
  std::atomic<double> sum_{0};
};

// Why a request got no answer; the label `reason` of ingot_rejected_total.
enum class Rejected : uint8_t {
  kBadRequest,     // 400: a field is wrong
  kNoKey,          // 401
  kForbidden,      // 403: foreign Host or Origin
  kNoRoute,        // 404, 405
  kKeyLimit,       // 429
  kQueueFull,      // 503
  kDraining,       // 503
  kInternalError,  // 5xx
  kLate,           // 503: the first token would miss the target
  kTimeout,        // 504, or the same within a stream
  kUsageLog,       // 503: what is used cannot be written down
  kCount,
};

// The name of a rank's machine as a client sees it; none where the rank is in this process.
inline std::string shown_host(const std::string& host, bool may_see) {
  return host.empty() || may_see ? host : "hidden";
}

// Names of the series are those of metrics.cpp, all beginning with ingot_ or process_.
class Metrics {
 public:
  // `routes`: the values of the label `route`; "other" is added. They must outlive the object.
  explicit Metrics(std::vector<std::string_view> routes = {});

  // One answer was begun. Unknown routes are counted as "other".
  void answered(std::string_view route, int status);
  void rejected(Rejected why) { rejected_[static_cast<size_t>(why)].add(); }
  // One choice ended.
  void finished(FinishReason reason) { finished_[static_cast<size_t>(reason)].add(); }

  // Written by whoever answers requests that generate.
  Histogram first_token_seconds;  // from the request's arrival to its first token
  Histogram gap_seconds;          // between two tokens of a choice
  Histogram request_seconds;      // from arrival to the last byte given to the socket
  Histogram queue_seconds;        // from submission to the first step
  // Written by the engines' threads after each step.
  Histogram step_seconds;
  Histogram step_rows;                                            // rows of a step
  Histogram step_seqs;                                            // seqs of a step
  Counter prompt_tokens, cached_prompt_tokens, generated_tokens;  // of requests that were accepted
  Counter client_gone;                                            // before the answer was complete
  Histogram grammar_compile_seconds;                              // written by who reads requests
  Histogram grammar_mask_seconds;                                 // written by threads beside the engine's
  Counter grammars_found, grammars_refused;                       // kept from an earlier request; answered with 400
  Counter tools_relaxed;                                          // offered without their schema being held
  Counter key_reloads, key_reload_failures;

  // What is known only when it is asked for.
  struct Now {
    EngineStats engine;                // of all together
    std::vector<EngineStats> engines;  // of each, where there are several
    HttpCounters http;
    bool ready = false, draining = false;
    double stalled_seconds = 0;
    bool stalled = false;  // the watchdog's verdict
    int64_t log_dropped = 0;
    int64_t usage_lost = 0;            // lines of the usage log
    std::vector<TenantUsage> tenants;  // for who may see them: empty for others
    bool hosts = false;                // the names of ranks' machines, for who may see them
    int64_t kv_bytes = 0, worker_jobs = 0, failed_jobs = 0;
    double worker_seconds = 0;  // of the longest job that runs
    int64_t requests_in_flight = 0;
    int64_t kept_responses = 0, kept_response_bytes = 0;
    DeviceUse device;
  };
  // The text format 0.0.4.
  std::string text(const Now& now) const;

 private:
  static constexpr size_t kClasses = 5;  // 1xx … 5xx
  static constexpr size_t kFinishReasons = static_cast<size_t>(FinishReason::kConstraint) + 1;

  const std::vector<std::string_view> routes_;
  std::vector<std::array<Counter, kClasses>> answers_;  // [routes + 1]
  std::array<Counter, static_cast<size_t>(Rejected::kCount)> rejected_;
  std::array<Counter, kFinishReasons> finished_;
};

}  // namespace ingot
