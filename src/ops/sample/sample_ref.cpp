#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "ops/counter_rng.h"
#include "ops/sample/sample.h"

namespace ingot::ref {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

using Logits = std::vector<float>;
using History = std::vector<int32_t>;

// The last n tokens, all of them when n is negative.
History tail(std::span<const int32_t> history, int n) {
  if (n < 0 || static_cast<size_t>(n) >= history.size()) return {history.begin(), history.end()};
  return {history.end() - n, history.end()};
}

void penalize(Logits& logits, const SampleRow& row) {
  const SamplingParams& p = *row.params;
  const History window = tail(row.history, p.penalty_last_n);
  const int64_t first = static_cast<int64_t>(row.history.size() - window.size());
  std::set<int32_t> seen;
  std::map<int32_t, int> output;
  for (size_t i = 0; i < window.size(); ++i) {
    if (window[i] < 0 || window[i] >= static_cast<int64_t>(logits.size())) continue;
    seen.insert(window[i]);
    if (first + static_cast<int64_t>(i) >= row.prompt_tokens) ++output[window[i]];
  }
  for (const int32_t token : seen) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
  }
  for (const auto& [token, count] : output)
    logits[static_cast<size_t>(token)] -= p.frequency_penalty * static_cast<float>(count) + p.presence_penalty;
}

void dry(Logits& logits, const SampleRow& row) {
  const SamplingParams& p = *row.params;
  const History h = tail(row.history, p.dry_last_n);
  const std::set<int32_t> breakers(p.dry_breakers.begin(), p.dry_breakers.end());
  std::map<int32_t, int> longest;  // token that followed, match before it
  for (size_t end = 1; end < h.size(); ++end) {
    int match = 0;  // of h[.. end) with the whole of h, from their ends
    while (static_cast<size_t>(match) < end) {
      const int32_t mine = h[h.size() - 1 - static_cast<size_t>(match)];
      if (mine != h[end - 1 - static_cast<size_t>(match)] || breakers.contains(mine)) break;
      ++match;
    }
    if (match > 0) longest[h[end]] = std::max(longest[h[end]], match);
  }
  for (const auto& [token, match] : longest) {
    if (match < p.dry_allowed_length || breakers.contains(token)) continue;
    if (token < 0 || token >= static_cast<int64_t>(logits.size())) continue;
    const double penalty =
        static_cast<double>(p.dry_multiplier) * std::pow(static_cast<double>(p.dry_base), match - p.dry_allowed_length);
    const double largest = std::numeric_limits<float>::max();
    logits[static_cast<size_t>(token)] -= static_cast<float>(std::min(penalty, largest));
  }
}

void bias_and_mask(Logits& logits, const SampleRow& row) {
  std::set<int32_t> forced;
  for (const auto& [token, bias] : row.params->logit_bias) {
    if (token < 0 || token >= static_cast<int64_t>(logits.size())) continue;
    if (bias == kInf) {
      forced.insert(token);
    } else {
      logits[static_cast<size_t>(token)] += bias;
    }
  }
  for (size_t v = 0; v < logits.size(); ++v) {
    if (!forced.empty() && !forced.contains(static_cast<int32_t>(v))) logits[v] = -kInf;
    if (row.mask.empty()) continue;
    const bool allowed = v / 32 < row.mask.size() && (row.mask[v / 32] >> (v % 32) & 1u) != 0;
    if (!allowed) logits[v] = -kInf;
  }
}

struct Item {
  int32_t id;
  float logit;
  double x;  // (logit - largest) / temperature
};

bool more_likely(const Item& a, const Item& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

double mass(const std::vector<Item>& items) {
  double sum = 0;
  for (const Item& item : items) sum += std::exp(item.x);
  return sum;
}

// Keeps the first items, the fewest that reach `wanted`.
void keep_until(std::vector<Item>& items, double wanted) {
  double sum = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    sum += std::exp(items[i].x);
    if (sum >= wanted) return items.resize(i + 1);
  }
}

void keep_typical(std::vector<Item>& items, double share) {
  const double total = mass(items);
  double entropy = 0;
  const auto surprise = [&](const Item& item) { return std::log(total) - item.x; };
  for (const Item& item : items) entropy += std::exp(item.x) / total * surprise(item);
  const auto distance = [&](const Item& item) { return std::fabs(surprise(item) - entropy); };
  std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    return distance(a) != distance(b) ? distance(a) < distance(b) : a.id < b.id;
  });
  keep_until(items, share * total);
  std::sort(items.begin(), items.end(), more_likely);
}

void exclude_top_choices(std::vector<Item>& items, const SampleRow& row) {
  const SamplingParams& p = *row.params;
  const CounterRng rng(p.seed, row.choice, row.position, Draw::kXtc);
  if (rng.uniform(0) >= p.xtc_probability) return;
  const double bar = p.xtc_threshold * mass(items);
  const auto above =
      std::count_if(items.begin(), items.end(), [&](const Item& item) { return std::exp(item.x) >= bar; });
  if (above >= 2) items.erase(items.begin(), items.begin() + (above - 1));
}

int32_t choose(const Logits& logits, const SampleRow& row) {
  const SamplingParams& p = *row.params;
  std::vector<Item> items;
  for (size_t v = 0; v < logits.size(); ++v)
    if (logits[v] > -kInf) items.push_back({static_cast<int32_t>(v), logits[v], 0});
  if (items.empty()) return -1;
  std::sort(items.begin(), items.end(), more_likely);
  if (!(p.temperature > 0)) return items[0].id;
  const double largest = items[0].logit;
  for (Item& item : items) item.x = (item.logit - largest) / p.temperature;
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < items.size()) items.resize(static_cast<size_t>(p.top_k));
  if (p.typical_p < 1) keep_typical(items, p.typical_p);
  if (p.top_p < 1) keep_until(items, p.top_p * mass(items));
  if (p.min_p > 0) {
    const double first = items[0].x;
    const double least = std::min(std::log(static_cast<double>(p.min_p)), 0.0);
    std::erase_if(items, [&](const Item& item) { return item.x - first < least; });
  }
  if (p.xtc_probability > 0) exclude_top_choices(items, row);
  const CounterRng rng(p.seed, row.choice, row.position, Draw::kToken);
  std::map<std::pair<double, int32_t>, int32_t> by_score;  // the largest score last, the lowest id of it
  for (const Item& item : items) {
    const double u = rng.uniform(static_cast<uint32_t>(item.id));
    by_score[{item.x - std::log(-std::log(u)), -item.id}] = item.id;
  }
  return by_score.rbegin()->second;
}

bool is_usable(const Logits& logits) {
  return std::all_of(logits.begin(), logits.end(), [](float v) { return !std::isnan(v) && v != kInf; });
}

void add_logprobs(SampleResult& result, const Logits& raw, int n) {
  const double largest = *std::max_element(raw.begin(), raw.end());
  double sum = 0;
  std::vector<Item> items;
  for (size_t v = 0; v < raw.size(); ++v) {
    sum += std::exp(raw[v] - largest);
    items.push_back({static_cast<int32_t>(v), raw[v], 0});
  }
  const auto logprob = [&](float logit) { return static_cast<float>(logit - largest - std::log(sum)); };
  std::sort(items.begin(), items.end(), more_likely);
  result.logprob = logprob(raw[static_cast<size_t>(result.token)]);
  for (size_t i = 0; i < items.size() && i < static_cast<size_t>(n); ++i)
    result.top.push_back({items[i].id, logprob(items[i].logit)});
}

}  // namespace

void run(const Sample& op, Ctx&) {
  for (size_t r = 0; r < op.rows.size(); ++r) {
    const SampleRow& row = op.rows[r];
    const float* x = op.logits.f32(static_cast<int64_t>(r));
    const Logits raw(x, x + op.logits.cols);
    Logits logits = raw;
    op.results[r] = {};
    if (!is_usable(raw)) continue;
    penalize(logits, row);
    if (row.params->dry_multiplier > 0) dry(logits, row);
    bias_and_mask(logits, row);
    if (!is_usable(logits)) continue;
    op.results[r].token = choose(logits, row);
    if (op.results[r].token >= 0 && row.params->n_logprobs >= 0)
      add_logprobs(op.results[r], raw, row.params->n_logprobs);
  }
}

}  // namespace ingot::ref
