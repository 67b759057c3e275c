// How the next token is chosen: the parameters of a request and the one table of their numbers. The API's fields,
// /v1/limits and /openapi.json, the command line's options, the engine's check of a request and the hints that a
// model's files give are all read from it. A new parameter is a member and a line here, and the code that uses it in
// the versions of the sample op (sample.h says what each does).
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace ingot {

struct SamplingParams {
  float temperature = 1;  // 0: greedy
  int top_k = 0;          // 0: off
  float top_p = 1;        // 1: off
  float min_p = 0;        // 0: off
  float typical_p = 1;    // 1: off
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  int penalty_last_n = -1;   // tokens of history that the penalties see; -1: all
  float dry_multiplier = 0;  // 0: off
  float dry_base = 1.75f;
  int dry_allowed_length = 2;
  int dry_last_n = -1;                // -1: all
  std::vector<int32_t> dry_breakers;  // tokens that end a repetition
  float xtc_probability = 0;          // 0: off
  float xtc_threshold = 0.1f;
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
  int n_logprobs = -1;  // -1: none; 0: the chosen token's only; n: also the n most likely
};

// One number of SamplingParams, for everyone who reads, checks or tells it.
struct SamplingNumber {
  const char* name;                         // the member's and the API's; generation_config.json's where `hint` is set
  const char* option;                       // of the command line
  float SamplingParams::*number = nullptr;  // one of these two
  int SamplingParams::*integer = nullptr;
  double low = 0, high = 1;    // both included; an end between two floats stands for the nearest one
  const char* text;            // for the API's reader
  const char* help = nullptr;  // for --help; none: named under its options
  bool hint = false;           // the model's files may give it, so its default is not known beforehand
  const char* gguf = nullptr;  // of a hint: general.sampling.NAME
  bool history = false;        // but for its default, the choice depends on the tokens before it

  double of(const SamplingParams& params) const {
    return number ? static_cast<double>(params.*number) : static_cast<double>(params.*integer);
  }
  void set(SamplingParams& params, double value) const {
    if (number) {
      params.*number = static_cast<float>(value);
    } else {
      params.*integer = static_cast<int>(value);
    }
  }
  // Written so that NaN fails.
  bool in_range(double value) const {
    const bool narrow = number != nullptr;  // 0.01 as a float lies below 0.01
    return value >= (narrow ? static_cast<double>(static_cast<float>(low)) : low) &&
           value <= (narrow ? static_cast<double>(static_cast<float>(high)) : high);
  }
};

inline constexpr std::array kSamplingNumbers = {
    SamplingNumber{.name = "temperature",
                   .option = "--temp",
                   .number = &SamplingParams::temperature,
                   .high = 2,
                   .text = "0: the likeliest token; absent: as the model's files say",
                   .help = "Temperature; 0: the most likely token (default: the model's, or 0.7)",
                   .hint = true,
                   .gguf = "temp"},
    SamplingNumber{.name = "top_k",
                   .option = "--top-k",
                   .integer = &SamplingParams::top_k,
                   .high = 1e6,
                   .text = "Likeliest tokens; 0: all",
                   .help = "Only the N most likely; 0: all (default: the model's, or 40)",
                   .hint = true,
                   .gguf = "top_k"},
    SamplingNumber{.name = "top_p",
                   .option = "--top-p",
                   .number = &SamplingParams::top_p,
                   .text = "Likeliest tokens that have so much of the mass",
                   .help = "Only the most likely of this mass (default: the model's, or 0.9)",
                   .hint = true,
                   .gguf = "top_p"},
    SamplingNumber{.name = "min_p",
                   .option = "--min-p",
                   .number = &SamplingParams::min_p,
                   .text = "Least likelihood, as a part of the likeliest's",
                   .help = "Only those this likely relative to the best",
                   .hint = true,
                   .gguf = "min_p"},
    SamplingNumber{.name = "typical_p",
                   .option = "--typical",
                   .number = &SamplingParams::typical_p,
                   .text = "Locally typical tokens; 1: all",
                   .hint = true},
    SamplingNumber{.name = "repetition_penalty",
                   .option = "--repeat-penalty",
                   .number = &SamplingParams::repetition_penalty,
                   .low = 0.01,
                   .high = 100,
                   .text = "On tokens of the prompt and the answer",
                   .help = "Over 1: against repetition",
                   .hint = true,
                   .gguf = "penalty_repeat",
                   .history = true},
    SamplingNumber{.name = "presence_penalty",
                   .option = "--presence-penalty",
                   .number = &SamplingParams::presence_penalty,
                   .low = -2,
                   .high = 2,
                   .text = "On tokens of the answer so far",
                   .history = true},
    SamplingNumber{.name = "frequency_penalty",
                   .option = "--frequency-penalty",
                   .number = &SamplingParams::frequency_penalty,
                   .low = -2,
                   .high = 2,
                   .text = "For each time that a token is in the answer",
                   .history = true},
    SamplingNumber{.name = "penalty_last_n",
                   .option = "--penalty-last-n",
                   .integer = &SamplingParams::penalty_last_n,
                   .low = -1,
                   .high = 1e6,
                   .text = "Tokens that the penalties see; -1: all"},
    SamplingNumber{.name = "dry_multiplier",
                   .option = "--dry-multiplier",
                   .number = &SamplingParams::dry_multiplier,
                   .high = 100,
                   .text = "Penalty on repeated phrases; 0: off",
                   .history = true},
    SamplingNumber{.name = "dry_base",
                   .option = "--dry-base",
                   .number = &SamplingParams::dry_base,
                   .low = 1,
                   .high = 100,
                   .text = "Its growth with the phrase's length"},
    SamplingNumber{.name = "dry_allowed_length",
                   .option = "--dry-allowed-length",
                   .integer = &SamplingParams::dry_allowed_length,
                   .high = 1e6,
                   .text = "Tokens of a phrase that may be repeated"},
    SamplingNumber{.name = "dry_last_n",
                   .option = "--dry-last-n",
                   .integer = &SamplingParams::dry_last_n,
                   .low = -1,
                   .high = 1e6,
                   .text = "Tokens that it sees; -1: all"},
    SamplingNumber{.name = "xtc_probability",
                   .option = "--xtc-probability",
                   .number = &SamplingParams::xtc_probability,
                   .text = "How often the likeliest tokens are left out"},
    SamplingNumber{.name = "xtc_threshold",
                   .option = "--xtc-threshold",
                   .number = &SamplingParams::xtc_threshold,
                   .text = "What counts as likely for it"},
};

}  // namespace ingot
