// A model's own ladder: its speed as it serves, and with one part of the engine switched off at a time.
#pragma once

#include "cli/bench/bench_model.h"
#include "files/json.h"

namespace ingot {

// `model` of a report, as report_file.h says; what there was no time for is told in `missing`. `gpu` is the CUDA
// device's index, -1: the CPU.
// Throws Interrupted where a signal came. REQUIRES: no InterruptGuard lives.
JsonObject measure_model(const BenchModelOptions& options, int gpu, bool quick, JsonArray& missing);

}  // namespace ingot
