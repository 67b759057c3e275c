#include "engine/sampler.h"

#include <fmt/format.h>

#include <cmath>

namespace ingot {
namespace {

struct Range {
  const char* name;
  double value, low, high;
};

}  // namespace

SampleRow sample_row(const Sequence& seq, std::span<const int32_t> history, int position) {
  return {.params = &seq.request->sampling,
          .history = history,
          .prompt_tokens = seq.n_prompt(),
          .mask = {},
          .choice = seq.choice,
          .position = position};
}

bool reads_history(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0 || p.dry_multiplier > 0;
}

std::string check_sampling(const SamplingParams& p, int vocab) {
  const Range ranges[] = {
      {"temperature", p.temperature, 0, 1e6},
      {"top_k", static_cast<double>(p.top_k), 0, 1e9},
      {"top_p", p.top_p, 0, 1},
      {"min_p", p.min_p, 0, 1},
      {"typical_p", p.typical_p, 0, 1},
      {"repetition_penalty", p.repetition_penalty, 1e-3, 1e3},
      {"presence_penalty", p.presence_penalty, -1e3, 1e3},
      {"frequency_penalty", p.frequency_penalty, -1e3, 1e3},
      {"penalty_last_n", static_cast<double>(p.penalty_last_n), -1, 1e9},
      {"dry_multiplier", p.dry_multiplier, 0, 1e3},
      {"dry_base", p.dry_base, 1, 1e3},
      {"dry_allowed_length", static_cast<double>(p.dry_allowed_length), 0, 1e9},
      {"dry_last_n", static_cast<double>(p.dry_last_n), -1, 1e9},
      {"xtc_probability", p.xtc_probability, 0, 1},
      {"xtc_threshold", p.xtc_threshold, 0, 1},
      {"logprobs", static_cast<double>(p.n_logprobs), -1, static_cast<double>(vocab)},
  };
  for (const Range& r : ranges) {
    // Written so that NaN fails.
    if (!(r.value >= r.low && r.value <= r.high)) {
      return fmt::format("{} is {}, expected {} to {}", r.name, r.value, r.low, r.high);
    }
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab) return fmt::format("logit_bias names token {} of {}", token, vocab);
    if (std::isnan(bias)) return fmt::format("logit_bias of token {} is not a number", token);
  }
  return {};
}

}  // namespace ingot
