// What a replay of a trace has shown: percentiles and rates, as a table, as JSON and as a page with charts.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/trace/trace_replay.h"
#include "cli/load/slo.h"
#include "files/json.h"

namespace ingot {

// How the replay was run.
struct TraceSetup {
  std::string file = {};
  std::string model = {};
  std::string machine = {};
  TraceScale scale = {};
  EngineConfig engine = {};
  Slo slo = {};
};

struct TraceReport {
  TraceSetup setup;
  std::string kind;
  int64_t requests = 0, finished = 0, busy = 0, refused = 0, failed = 0;
  int64_t late = 0;  // of the busy: their first token would have missed the engine's target
  int64_t good = 0;  // finished, and within the SLO
  int64_t good_tokens = 0;
  std::string first_refusal = {};
  double seconds = 0;
  double late_ms = 0;  // the most that the client was behind the trace
  int64_t prompt_tokens = 0, output_tokens = 0;
  int64_t reused_tokens = 0;
  int64_t ideal_tokens = 0;  // of the prompts: rows whose content an earlier request had, to the token
  EngineStats stats;
  // Sorted.
  std::vector<double> ttft_ms = {}, gap_ms = {}, e2e_ms = {};
  std::vector<double> request_tps = {};  // tokens after the first over their time, of each request with two or more
  std::vector<double> total_tps = {};    // tokens of all requests a second, of each second
  std::vector<TraceSample> samples;
};

TraceReport make_trace_report(const Trace& trace, TraceRun run, const TraceSetup& setup);

std::string trace_table(const TraceReport& report);
JsonObject trace_json(const TraceReport& report);
// One HTML page that needs nothing from outside.
std::string trace_page(const TraceReport& report);

}  // namespace ingot
