// The options of `ingot quantize` that choose how values are rounded, and what they are rounded by.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "compress/gptq.h"
#include "compress/quantize.h"
#include "weights/kv_scales.h"

namespace ingot {

// What is asked for caches of 8 bits.
struct KvOptions {
  std::string type;  // fp8 or int8; empty: nothing
  double bits = 8;   // of a value in the mean

  bool asked() const { return !type.empty(); }
  DType dtype() const { return type == "int8" ? DType::kInt8 : DType::kFp8; }
};
void add_kv_options(CLI::App& app, KvOptions& options);
// "fp8, layers 3, 7 in 16 bits".
std::string kv_text(const KvScales& scales);

// The stage in which tensors are rounded.
constexpr std::string_view kWorkStage = "quantizing";

struct MethodOptions {
  std::string text;        // of the methods that run the model
  std::string statistics;  // a file of `ingot calibrate` or llama-imatrix
  int64_t tokens = 32768;
  KvOptions kv;
  GptqOptions gptq;
  // Called as a stage before the rounding goes on, 0…1; gptq's passes are kWorkStage, as they come between.
  std::function<void(std::string_view stage, double done)> progress = {};

  WorkProgress progress_of(std::string_view stage) const {
    return [shown = progress, stage](double done) {
      if (shown) shown(stage, done);
    };
  }
};

void add_method_options(CLI::App& app, MethodOptions& options, QuantizeOptions& quantized);

// A method that is ready: `quantized` knows its importances and what the recipe says of them. `dry`: nothing is
// calibrated. Throws Error.
struct Method {
  std::unique_ptr<Rounder> rounder;
  std::shared_ptr<const Stats> stats;  // the importances read it
  std::vector<std::string> notes;      // for people
  // What a method that learns while it rounds has to add to the notes; empty: nothing.
  std::function<std::vector<std::string>()> notes_behind = {};
  double seconds = 0;  // of a dry run: what the method will take beside the rounding
};
// Finds scales where they are asked for, or reads them from the statistics: `quantized` has them then. Gives notes for
// people. Throws Error.
std::vector<std::string> open_kv(const MethodOptions& options, QuantizeOptions& quantized, bool dry);
Method open_method(const MethodOptions& options, QuantizeOptions& quantized, bool dry);

}  // namespace ingot
