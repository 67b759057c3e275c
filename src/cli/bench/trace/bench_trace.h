// ingot bench --trace: a trace of arrivals and lengths through the engine, without HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/bench/trace/trace_replay.h"
#include "cli/engine_setup.h"

namespace ingot {

struct BenchTraceOptions {
  std::string file;  // empty: no replay is asked for
  TraceScale scale;
  size_t limit = 0;  // requests; 0: all
  double gap_ms = 0;
  int seqs = 16;
  int max_waiting = 1 << 20;
  uint64_t kv_bytes = 0;
  int page_rows = 64;
  std::string html;
};

// The options of a replay. Wrong usage: one of them without --trace, or --trace with one of the other benchmark.
void add_trace_options(CLI::App& app, BenchTraceOptions& options);

// Replays and prints. `open` makes the engine; the context of the setup it gets is what the trace needs, and a model
// with less refuses the requests that are too long. `model` names it in the report.
int bench_trace(const BenchTraceOptions& options, const CommonOptions& common, const std::string& model,
                const std::function<OpenEngine(const EngineSetup&)>& open);

}  // namespace ingot
