// The options of run and chat that shape an answer: sampling, length and stop strings.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/sample/sampling_params.h"

namespace CLI {
class App;
}

namespace ingot {

// What was given on the command line; the rest is the model's (app/model_sampling.h).
struct SamplingOptions {
  std::array<std::optional<double>, kSamplingNumbers.size()> numbers;  // as kSamplingNumbers lists them
  std::vector<std::string> logit_bias;                                 // ID:BIAS, checked by the parser
  std::optional<uint64_t> seed;                                        // absent: a random one
  int max_tokens = -1;  // -1: until the answer ends or the context is full
  std::vector<std::string> stop;
};

// Options with an optional value have no default here; wrong values end the parse with a message that names the option.
void add_sampling_options(CLI::App& app, SamplingOptions& options);
// Lines of help that name the options that add_sampling_options keeps out of the list.
std::string more_sampling_options();

// Checks of option values, for CLI::Option::check: numbers written in full and within [low, high], NaN in none.
std::function<std::string(const std::string&)> number_in(double low, double high);
std::function<std::string(const std::string&)> integer_in(int64_t low, int64_t high);

// `base` with what was given. A random seed where none was.
SamplingParams sampling_params(const SamplingOptions& options, const SamplingParams& base);

// "temperature 0.7, top-k 40, seed 7": what --help lists, and what is not as it is left alone.
std::string sampling_text(const SamplingParams& params);

}  // namespace ingot
