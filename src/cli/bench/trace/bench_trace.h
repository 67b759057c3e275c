// ingot bench --trace: a trace of arrivals and lengths through the engine, without HTTP.
#pragma once

#include <functional>
#include <string>

#include "app/open_engine.h"
#include "cli/bench/trace/trace_replay.h"
#include "cli/command.h"

namespace ingot {

struct BenchTraceOptions {
  std::string file;  // empty: no replay is asked for
  TraceScale scale;
  size_t limit = 0;  // requests; 0: all
  std::string html;
};

// The options of a replay and of the engine that it needs. Wrong usage: one of them without --trace, or --trace with
// one of the other benchmark.
void add_trace_options(CLI::App& app, BenchTraceOptions& options, OpenOptions& open);

// Replays and prints. `open` makes the engine for a context that the trace needs; a model with less refuses the
// requests that are too long. `model` names it in the report.
int bench_trace(const BenchTraceOptions& options, const CommonOptions& common, const std::string& model,
                const std::function<OpenEngine(int context)>& open);

}  // namespace ingot
