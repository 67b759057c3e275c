// The parts of `ingot bench ops`: each operator alone, against the limits of this machine measured in the same run.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"

namespace ingot {

struct OpsRun {
  std::vector<std::string> names = {};  // of operators and formats; empty: all
  int threads = 0;                      // of the CPU; 0: the cores that this process may use
  bool quiet = false;                   // nothing is printed
  double most_seconds = 0;              // no case begins later; 0: all do
};

struct OpsReport {
  JsonArray results;
  JsonObject machine;
  int left_out = 0;  // cases that `most_seconds` left out, where it is known; -1: some were
};

// Throws Interrupted where a signal came. REQUIRES, of both: no InterruptGuard lives. With `most_seconds` one case of
// each operator comes first, then a second, and so on.
OpsReport bench_cpu_ops(const OpsRun& run);

// The operators that bench/device.h times on a GPU.
OpsReport bench_gpu_ops(int device, const OpsRun& run);

// The page of a report.
std::string ops_page(const OpsReport& report);

}  // namespace ingot
