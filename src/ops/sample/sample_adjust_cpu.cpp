#include "ops/sample/sample_adjust_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ingot::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

bool penalizes(const SampleRow& row) {
  const SamplingParams& p = *row.params;
  return (p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0) && !row.history.empty();
}

std::span<const int32_t> last_of(std::span<const int32_t> history, int n) {
  return n < 0 || static_cast<size_t>(n) >= history.size() ? history : history.last(static_cast<size_t>(n));
}

// Two walks over the history: the first counts, the second penalizes each token where it meets it first.
void penalize(float* logits, int64_t n, const SampleRow& row, int32_t* counts) {
  constexpr int32_t kSeen = 1 << 30;
  const SamplingParams& p = *row.params;
  const std::span<const int32_t> window = last_of(row.history, p.penalty_last_n);
  const int64_t first = static_cast<int64_t>(row.history.size() - window.size());
  const int64_t first_output = std::clamp<int64_t>(row.prompt_tokens - first, 0, std::ssize(window));
  std::fill(counts, counts + n, 0);
  const auto in_vocabulary = [n](int32_t token) { return token >= 0 && token < n; };
  for (const int32_t token : window)
    if (in_vocabulary(token)) counts[token] = kSeen;
  for (const int32_t token : window.subspan(static_cast<size_t>(first_output)))
    if (in_vocabulary(token)) ++counts[token];
  for (const int32_t token : window) {
    if (!in_vocabulary(token) || counts[token] == 0) continue;
    const int32_t count = counts[token] - kSeen;
    float logit = logits[token];
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    if (count > 0) logit -= p.frequency_penalty * static_cast<float>(count) + p.presence_penalty;
    logits[token] = logit;
    counts[token] = 0;
  }
}

bool contains(std::span<const int32_t> tokens, int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

void apply_dry(float* logits, int64_t n, const SampleRow& row) {
  const SamplingParams& p = *row.params;
  const std::span<const int32_t> window = last_of(row.history, p.dry_last_n);
  for (const auto& [token, match] : dry_matches(window, p.dry_breakers, p.dry_allowed_length)) {
    if (token < 0 || token >= n) continue;
    const double growth = std::pow(static_cast<double>(p.dry_base), match - p.dry_allowed_length);
    // No more than the largest float: a penalty makes a token unlikely, it does not forbid it.
    const double penalty = std::min(static_cast<double>(p.dry_multiplier) * growth,
                                    static_cast<double>(std::numeric_limits<float>::max()));
    logits[token] -= static_cast<float>(penalty);
  }
}

void apply_bias(float* logits, int64_t n, std::span<const std::pair<int32_t, float>> biases) {
  bool forces = false;
  for (const auto& [token, bias] : biases) {
    if (token < 0 || token >= n) continue;
    if (bias == kInf) {
      forces = true;
    } else {
      logits[token] += bias;
    }
  }
  if (!forces) return;
  std::vector<std::pair<int32_t, float>> forced;
  for (const auto& [token, bias] : biases)
    if (token >= 0 && token < n && bias == kInf) forced.emplace_back(token, logits[token]);
  std::fill(logits, logits + n, -kInf);
  for (const auto& [token, logit] : forced) logits[token] = logit;
}

void apply_mask(float* logits, int64_t n, std::span<const uint32_t> mask) {
  const int64_t words = std::min<int64_t>(std::ssize(mask), (n + 31) / 32);
  for (int64_t w = 0; w < words; ++w) {
    float* word = logits + 32 * w;
    const int bits = static_cast<int>(std::min<int64_t>(32, n - 32 * w));
    const uint32_t allowed = mask[static_cast<size_t>(w)];
    if (allowed == ~0u) continue;
    for (int b = 0; b < bits; ++b) word[b] = (allowed >> b & 1u) != 0 ? word[b] : -kInf;
  }
  if (32 * words < n) std::fill(logits + 32 * words, logits + n, -kInf);
}

}  // namespace

std::vector<std::pair<int32_t, int32_t>> dry_matches(std::span<const int32_t> window, std::span<const int32_t> breakers,
                                                     int allowed) {
  const int64_t n = std::ssize(window);
  const auto at = [&](int64_t i) { return window[static_cast<size_t>(n - 1 - i)]; };  // from the end
  int64_t limit = 0;  // no match is longer than what lies behind the last breaker
  while (limit < n && !contains(breakers, at(limit))) ++limit;
  const int64_t least = std::max(allowed, 1);
  std::vector<std::pair<int32_t, int32_t>> matches;
  if (limit < least) return matches;
  // Z-algorithm on the window read from its end: z[i] is how far the text at i agrees with its beginning.
  std::vector<int32_t> z(static_cast<size_t>(n));
  int64_t left = 0, right = 0;  // the match that reaches furthest is [left, right)
  for (int64_t i = 1; i < n; ++i) {
    int64_t length = i < right ? std::min<int64_t>(right - i, z[static_cast<size_t>(i - left)]) : 0;
    while (i + length < n && at(length) == at(i + length)) ++length;
    z[static_cast<size_t>(i)] = static_cast<int32_t>(length);
    if (i + length > right) {
      left = i;
      right = i + length;
    }
    if (const int64_t match = std::min(length, limit); match >= least && !contains(breakers, at(i - 1)))
      matches.emplace_back(at(i - 1), static_cast<int32_t>(match));
  }
  // The longest of each token.
  std::sort(matches.begin(), matches.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
  const auto same_token = [](const auto& a, const auto& b) { return a.first == b.first; };
  matches.erase(std::unique(matches.begin(), matches.end(), same_token), matches.end());
  return matches;
}

bool adjusts_logits(const SampleRow& row) {
  return penalizes(row) || row.params->dry_multiplier > 0 || !row.params->logit_bias.empty() || !row.mask.empty();
}

void adjust_logits(float* logits, int64_t n, const SampleRow& row, int32_t* counts) {
  if (penalizes(row)) penalize(logits, n, row, counts);
  if (row.params->dry_multiplier > 0) apply_dry(logits, n, row);
  apply_bias(logits, n, row.params->logit_bias);
  if (!row.mask.empty()) apply_mask(logits, n, row.mask);
}

}  // namespace ingot::cpu
