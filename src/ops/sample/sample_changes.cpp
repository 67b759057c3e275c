#include "ops/sample/sample_changes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/sample/sample_adjust_cpu.h"

namespace ingot {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::span<const int32_t> last_of(std::span<const int32_t> history, int n) {
  return n < 0 || static_cast<size_t>(n) >= history.size() ? history : history.last(static_cast<size_t>(n));
}

bool allows(std::span<const uint32_t> mask, int32_t token) {
  if (mask.empty()) return true;
  const size_t word = static_cast<size_t>(token) / 32;
  return word < mask.size() && (mask[word] >> (token % 32) & 1u) != 0;
}

}  // namespace

ChangeFinder::ChangeFinder(int64_t vocabulary) : place_(static_cast<size_t>(vocabulary), -1) {}

ChangeFinder::Entry* ChangeFinder::entry(int32_t token) {
  if (token < 0 || static_cast<size_t>(token) >= place_.size()) return nullptr;
  int32_t& place = place_[static_cast<size_t>(token)];
  if (place < 0) {
    place = static_cast<int32_t>(entries_.size());
    entries_.push_back({.change = {.token = token}});
  }
  return &entries_[static_cast<size_t>(place)];
}

void ChangeFinder::add_penalties(const SampleRow& row) {
  const SamplingParams& p = *row.params;
  if (p.repetition_penalty == 1 && p.presence_penalty == 0 && p.frequency_penalty == 0) return;
  const std::span<const int32_t> window = last_of(row.history, p.penalty_last_n);
  const int64_t first = static_cast<int64_t>(row.history.size() - window.size());
  const int64_t first_output = std::clamp<int64_t>(row.prompt_tokens - first, 0, std::ssize(window));
  // Without repetition only tokens of the output change.
  const size_t begin = p.repetition_penalty == 1 ? static_cast<size_t>(first_output) : 0;
  for (size_t i = begin; i < window.size(); ++i) {
    Entry* e = entry(window[i]);
    if (e == nullptr) continue;
    e->change.repetition = p.repetition_penalty;
    if (static_cast<int64_t>(i) >= first_output) ++e->count;
  }
  for (Entry& e : entries_)
    if (e.count > 0) e.change.minus = p.frequency_penalty * static_cast<float>(e.count) + p.presence_penalty;
}

void ChangeFinder::add_dry(const SampleRow& row) {
  const SamplingParams& p = *row.params;
  if (!(p.dry_multiplier > 0)) return;
  const std::span<const int32_t> window = last_of(row.history, p.dry_last_n);
  for (const auto& [token, match] : cpu::dry_matches(window, p.dry_breakers, p.dry_allowed_length)) {
    Entry* e = entry(token);
    if (e == nullptr) continue;
    const double growth = std::pow(static_cast<double>(p.dry_base), match - p.dry_allowed_length);
    const double largest = std::numeric_limits<float>::max();
    e->change.dry = static_cast<float>(std::min(static_cast<double>(p.dry_multiplier) * growth, largest));
  }
}

bool ChangeFinder::add_biases(const SampleRow& row) {
  bool forces = false;
  for (const auto& [token, bias] : row.params->logit_bias) {
    Entry* e = entry(token);
    if (e == nullptr) continue;
    if (bias == kInf) {
      e->forced = forces = true;
    } else if (e->biased) {
      more_.emplace_back(token, bias);
    } else {
      e->biased = true;
      e->change.plus = bias;
    }
  }
  return forces;
}

bool ChangeFinder::find(const SampleRow& row, std::vector<TokenChange>& out) {
  entries_.clear();
  more_.clear();
  add_penalties(row);
  add_dry(row);
  const bool forces = add_biases(row);
  for (const Entry& e : entries_) {
    const int32_t token = e.change.token;
    place_[static_cast<size_t>(token)] = -1;
    if ((forces && !e.forced) || !allows(row.mask, token)) continue;
    out.push_back(e.change);
    for (const auto& [again, bias] : more_)
      if (again == token) out.push_back({.token = -1, .plus = bias});
  }
  return forces;
}

}  // namespace ingot
