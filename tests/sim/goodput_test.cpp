// Requests whose first token comes in time, with a target for it and without, on published traces in simulated time.
// INGOT_LONG=1 replays all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/data_test_support.h"
#include "cli/bench/trace/trace_replay.h"
#include "sim/fair_load.h"

namespace ingot::sim {
namespace {

struct Served {
  size_t requests = 0, refused = 0;
  std::vector<double> ttft = {};  // sorted, seconds

  double within(double target) const {
    const auto in_time = std::ranges::upper_bound(ttft, target) - ttft.begin();
    return static_cast<double>(in_time) / static_cast<double>(requests);
  }
  double median() const { return ttft[ttft.size() / 2]; }
};

// One that serves 16 at once, and a step of 256 rows in 30 ms.
struct Server {
  const Trace& trace;
  TraceScale scale;  // its time: of a rate of 1

  Served serve(double rate, double target) const {
    EngineConfig config{.max_seqs = 16, .step_rows = 256, .page_rows = 32, .max_waiting = 256};
    config.ttft_target_ms = 1e3 * target;
    FairLoad load(config, 4000, 1);
    load.model.step_seconds = 0.005;
    load.model.row_seconds = 0.0001;
    Served served{.requests = trace.requests.size()};
    std::map<SeqId, double> due;
    for (size_t next = 0; next < trace.requests.size() || !load.core->idle();) {
      for (; next < trace.requests.size(); ++next) {
        const TraceRequest& from = trace.requests[next];
        const double at = from.arrival / scale.time / rate;
        if (at > load.now() && load.core->idle()) load.model.now_ns = static_cast<int64_t>(1e9 * at) + 1;
        if (at > load.now()) break;
        Request r;
        r.prompt = trace_prompt(from, next, scale, 1000);
        r.max_tokens = scaled_tokens(from.output, scale);
        const Submitted submitted = load.core->submit(std::move(r), -1, load.model.now_ns);
        served.refused += submitted.busy;
        if (submitted.id >= 0) due[submitted.id] = at;
      }
      for (const Event& event : load.core->step()) {
        const auto it = due.find(event.request);
        if (it == due.end() || event.sample.token < 0) continue;
        served.ttft.push_back(load.now() - it->second);
        due.erase(it);
      }
    }
    std::ranges::sort(served.ttft);
    return served;
  }

  // The highest rate at which 95 % are in time, within 2 %.
  double capacity(double target) const {
    double low = 0.05, high = 0.1;
    while (serve(high, 0).within(target) >= 0.95 && high < 1000) low = high, high *= 2;
    while (high / low > 1.02) {
      const double middle = std::sqrt(low * high);
      (serve(middle, 0).within(target) >= 0.95 ? low : high) = middle;
    }
    return low;
  }
};

void compare(const char* file, int length) {
  const char* all = std::getenv("INGOT_LONG");
  const Trace trace = read_trace(test_data(std::string("traces/") + file), all ? 0 : 1500);
  const Server server{trace, {.length = length, .time = 1}};
  // The target follows from the capacity, and the capacity from the target.
  double capacity = 1, target = 0;
  for (int i = 0; i < (all ? 4 : 2); ++i) {
    target = 5 * server.serve(capacity / 2, 0).median();
    capacity = server.capacity(target);
  }
  for (const double load : {0.9, 1.3}) {
    const Served plain = server.serve(load * capacity, 0), told = server.serve(load * capacity, target);
    std::printf("%s at %.1f: in time %.1f %% and %.1f %% with a target of %.0f ms, %.2f %% and %.2f %% refused\n", file,
                load, 100 * plain.within(target), 100 * told.within(target), 1e3 * target,
                100.0 * static_cast<double>(plain.refused) / static_cast<double>(plain.requests),
                100.0 * static_cast<double>(told.refused) / static_cast<double>(told.requests));
    if (load < 1) {
      EXPECT_LE(told.refused, told.requests / 200) << file;
    }
    if (load > 1) {
      EXPECT_GE(told.within(target), 1.5 * plain.within(target)) << file;
    }
  }
}

TEST(Goodput, Azure) { compare("AzureLLMInferenceTrace_conv.csv", 16); }
TEST(Goodput, Mooncake) { compare("mooncake_conversation_trace.jsonl", 64); }

}  // namespace
}  // namespace ingot::sim
