// The options of `ingot quantize` that choose how values are rounded, and what they are rounded by.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "compress/gptq.h"
#include "compress/quantize.h"

namespace ingot {

struct MethodOptions {
  std::string text;        // of the methods that run the model
  std::string statistics;  // a file of `ingot calibrate` or llama-imatrix
  int64_t tokens = 32768;
  GptqOptions gptq;
};

void add_method_options(CLI::App& app, MethodOptions& options, QuantizeOptions& quantized);

// A method that is ready: `quantized` knows its importances and what the recipe says of them. `dry`: nothing is
// calibrated. Throws Error.
struct Method {
  std::unique_ptr<Rounder> rounder;
  std::shared_ptr<const Stats> stats;  // the importances read it
  std::vector<std::string> notes;      // for people
};
Method open_method(const MethodOptions& options, QuantizeOptions& quantized, bool dry);

}  // namespace ingot
