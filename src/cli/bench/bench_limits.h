// What the machine under a benchmark can do at most: the cores of the CPU, or the GPU that computes.
#pragma once

#include "bench/machine.h"
#include "engine/engine.h"
#include "files/json.h"

namespace ingot {

struct BenchLimits {
  int threads = 0;            // of the CPU
  double read_gbs = 0;        // what percentages are of; on the CPU the higher of `reads`
  ReadSpeeds reads;           // of the CPU
  double product_gflops = 0;  // of the multipliers that most weights use
  double int8_gops = 0;       // of the CPU; 0 on a GPU
  // Seconds that the body's matrices would take for one token with the multipliers always busy; 0: not known.
  double token_seconds = 0;
  DeviceUse device;  // its name is empty on the CPU
};

BenchLimits measure_limits(Engine& engine);

// Of a model's weights, in their published formats.
struct WeightBytes {
  int64_t all = 0;
  // That a step of few rows reads: all but the tables of which it reads a row for each of its own, and of experts those
  // that its rows are expected to meet.
  int64_t step = 0;
};
WeightBytes weight_bytes(const Model& model, int rows = 1);

// The first line of the report.
std::string limits_line(const BenchLimits& limits, const WeightBytes& weights);
JsonObject machine_json(const BenchLimits& limits);

}  // namespace ingot
