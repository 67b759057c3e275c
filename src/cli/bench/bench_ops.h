// ingot bench ops: each operator alone, against the limits of this machine measured in the same run. On the CPU, or on
// the GPU that --device names.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace ingot {

// On a GPU: those that bench/device.h times.
int bench_gpu_ops(int device, const std::vector<std::string>& names, bool json);

// Runs and prints them.
int bench_ops(const std::vector<std::string>& names, const CommonOptions& common);

}  // namespace ingot
