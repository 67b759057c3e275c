#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ingot {

SampleRow sample_row(const Sequence& seq, std::span<const int32_t> history, int position) {
  return {.params = &seq.sampling(),
          .history = history,
          .prompt_tokens = seq.n_prompt(),
          .mask = {},
          .choice = seq.choice,
          .position = position};
}

bool reads_history(const SamplingParams& p) {
  static const SamplingParams none;
  return std::ranges::any_of(kSamplingNumbers,
                             [&](const SamplingNumber& n) { return n.history && n.of(p) != n.of(none); });
}

std::string check_sampling(const SamplingParams& p, int vocab) {
  constexpr const char* kOutside = "{} is {}, expected {} to {}";
  for (const SamplingNumber& n : kSamplingNumbers) {
    if (!n.in_range(n.of(p))) return fmt::format(kOutside, n.name, n.of(p), n.low, n.high);
  }
  if (p.n_logprobs < -1 || p.n_logprobs > vocab) return fmt::format(kOutside, "logprobs", p.n_logprobs, -1, vocab);
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab) return fmt::format("logit_bias names token {} of {}", token, vocab);
    if (std::isnan(bias)) return fmt::format("logit_bias of token {} is not a number", token);
  }
  return {};
}

}  // namespace ingot
