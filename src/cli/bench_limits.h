// What the machine under a benchmark can do at most: the cores of the CPU, or the GPU that computes.
#pragma once

#include "cli/machine.h"
#include "engine/engine.h"
#include "files/json.h"

namespace ingot {

struct BenchLimits {
  int threads = 0;  // of the CPU
  double read_gbs = 0;
  double product_gflops = 0;  // of the multipliers that most weights use
  double int8_gops = 0;       // of the CPU; 0 on a GPU
  // Seconds that the body's linears would take for one token with the multipliers always busy; 0: not known.
  double token_seconds = 0;
  DeviceUse device;  // its name is empty on the CPU
};

BenchLimits measure_limits(Engine& engine);

// The first line of the report.
std::string limits_line(const BenchLimits& limits, int64_t weight_bytes);
JsonObject machine_json(const BenchLimits& limits);

}  // namespace ingot
