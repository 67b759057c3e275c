// The options of run and chat that shape an answer: sampling, length and stop strings.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/sample/sample.h"

namespace CLI {
class App;
}

namespace ingot {

// What was given on the command line; the rest is the model's (app/model_sampling.h).
struct SamplingOptions {
  std::optional<float> temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty,
      dry_multiplier, dry_base, xtc_probability, xtc_threshold;
  std::optional<int> top_k, penalty_last_n, dry_allowed_length, dry_last_n;
  std::vector<std::string> logit_bias;  // ID:BIAS, checked by the parser
  std::optional<uint64_t> seed;         // absent: a random one
  int max_tokens = -1;                  // -1: until the answer ends or the context is full
  std::vector<std::string> stop;
};

// Options with an optional value have no default here; wrong values end the parse with a message that names the option.
void add_sampling_options(CLI::App& app, SamplingOptions& options);
// One line of help that names the options that add_sampling_options keeps out of the list.
extern const char* const kMoreSamplingOptions;

// Checks of option values, for CLI::Option::check: numbers written in full and within [low, high], NaN in none.
std::function<std::string(const std::string&)> number_in(double low, double high);
std::function<std::string(const std::string&)> integer_in(int64_t low, int64_t high);

// `base` with what was given. A random seed where none was.
SamplingParams sampling_params(const SamplingOptions& options, const SamplingParams& base);

}  // namespace ingot
