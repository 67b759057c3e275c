// The parts of `ingot bench ops`: each operator alone, against the limits of this machine measured in the same run.
#pragma once

#include <string>
#include <vector>

#include "files/json.h"

namespace ingot {

struct OpsReport {
  JsonArray results;
  JsonObject machine;
};

// Runs the operators that bench/device.h times on a GPU, and prints each unless all is to be one JSON document.
OpsReport bench_gpu_ops(int device, const std::vector<std::string>& names, bool json);

// The page of a report.
std::string ops_page(const OpsReport& report);

}  // namespace ingot
