// What a benchmark runs on: a model, or a published shape with random weights.
#pragma once

#include <string>

#include "cli/engine_setup.h"
#include "files/json.h"

namespace ingot {

struct BenchModelOptions {
  std::string model;  // as resolve_model takes it
  std::string shape;  // where none: the model
  std::string format = "q8_0";
  std::string save;
  int step_rows = 0;  // 0: 512, on a GPU 16384 and one for each seq
  std::string kv;     // as kv_or_default takes it
  CommonOptions common;
};

// MODEL, --shape, --format, --save, --step-rows, --kv, those of the engine and --json.
void add_bench_model_options(CLI::App& app, BenchModelOptions& options);

// CLI::ValidationError where they do not go together.
void check_bench_model(const BenchModelOptions& options);

// The path of the model, or the shape and the format. Fetches the default model where that is meant.
std::string bench_model_name(const BenchModelOptions& options);

// Opens it; a context longer than the shape's is cut. `prompt`: tokens of a prompt, for the rows of a step.
OpenEngine open_bench_model(const BenchModelOptions& options, EngineSetup setup, int prompt);

// {architecture, format} for reports.
JsonObject bench_model_json(const BenchModelOptions& options, const Model& model);

}  // namespace ingot
