// Measures what `ingot report` shows.
#pragma once

#include <functional>
#include <string>

#include "cli/bench/bench_model.h"
#include "files/json.h"

namespace ingot {

struct ReportRun {
  // `model` is a path, or empty: no model, unless `shape` names one. Device and threads are those of `open`.
  BenchModelOptions model;
  bool quick = false;  // at most a minute on two cores
};

// A report as report_file.h says, without its version and date. `tell` is called with a line when a part is done.
// Throws Interrupted where a signal came. REQUIRES: no InterruptGuard lives.
JsonObject measure_report(const ReportRun& run, const std::function<void(const std::string&)>& tell);

}  // namespace ingot
