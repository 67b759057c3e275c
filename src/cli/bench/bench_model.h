// What a benchmark runs on: a model, or a published shape with random weights.
#pragma once

#include <string>

#include "app/open_engine.h"
#include "cli/command.h"
#include "files/json.h"

namespace ingot {

struct BenchModelOptions {
  std::string model;  // as resolve_model takes it
  std::string shape;  // where none: the model
  std::string format = "q8_0";
  std::string save;
  OpenOptions open = {.engine = {.threads = 0, .max_seqs = 16, .step_rows = 0}};  // step_rows: of open_bench_model
  CommonOptions common;
};

// MODEL, --shape, --format, --save, --step-rows, --kv, those of the engine, --verbose and --json.
void add_bench_model_options(CLI::App& app, BenchModelOptions& options);

// CLI::ValidationError where they do not go together.
void check_bench_model(const BenchModelOptions& options);

// The path of the model, or the shape and the format. Fetches the default model where that is meant.
std::string bench_model_name(const BenchModelOptions& options);

// Opens it for `seqs` of `context` tokens; a context longer than the shape's is cut. Without --step-rows a step has 512
// rows, on a GPU 16384 (or those of all prompts, of `prompt` tokens each, where that is less) and one for each seq.
OpenEngine open_bench_model(const BenchModelOptions& options, int context, int seqs, int prompt);

// {architecture, format} for reports.
JsonObject bench_model_json(const BenchModelOptions& options, const Model& model);

}  // namespace ingot
