#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "ops/router_topk/router_topk.h"

namespace ingot::ref {
namespace {

using Floats = std::vector<float>;

Floats softmax(const Floats& x) {
  const float largest = *std::ranges::max_element(x);
  double sum = 0;
  Floats out(x.size());
  for (size_t i = 0; i < x.size(); ++i) sum += out[i] = std::exp(x[i] - largest);
  for (float& v : out) v = static_cast<float>(static_cast<double>(v) / sum);
  return out;
}

// The k best, best first; equal ones in order.
std::vector<int32_t> best(const Floats& keys, size_t k) {
  std::vector<int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int32_t e) { return keys[static_cast<size_t>(e)]; });
  order.resize(k);
  return order;
}

// Experts outside the best groups get minus infinity.
void leave_groups(const RouterSpec& spec, Floats& keys) {
  const size_t groups = static_cast<size_t>(spec.groups), size = keys.size() / groups;
  Floats scores(groups);
  for (size_t g = 0; g < groups; ++g) {
    Floats own(keys.begin() + static_cast<int64_t>(g * size), keys.begin() + static_cast<int64_t>((g + 1) * size));
    std::ranges::sort(own, std::greater{});
    scores[g] = own[0] + (spec.group_score == GroupScore::kBestTwo && size > 1 ? own[1] : 0);
  }
  const std::vector<int32_t> kept = best(scores, static_cast<size_t>(spec.groups_used));
  for (size_t e = 0; e < keys.size(); ++e) {
    if (std::ranges::count(kept, static_cast<int32_t>(e / size)) == 0) keys[e] = -INFINITY;
  }
}

// The first of the largest `allowed` scores, and its share among those near it.
std::pair<int32_t, float> sparsemixer(const Floats& logits, const Floats& allowed, float jitter) {
  const int32_t chosen = best(allowed, 1)[0];
  const float largest = allowed[static_cast<size_t>(chosen)];
  Floats near = allowed;
  for (size_t e = 0; e < near.size(); ++e) {
    const float factor = std::max(std::abs(logits[e]), largest);
    if ((largest - logits[e]) / factor > 2 * jitter) near[e] = -INFINITY;
  }
  return {chosen, softmax(near)[static_cast<size_t>(chosen)]};
}

struct Choice {
  std::vector<int32_t> experts;
  Floats weights;
};

Choice choose_two(const Floats& logits, float jitter) {
  const auto [first, weight] = sparsemixer(logits, logits, jitter);
  Floats rest = logits;
  rest[static_cast<size_t>(first)] = -INFINITY;
  const auto [second, other] = sparsemixer(logits, rest, jitter);
  return {{first, second}, {weight, other}};
}

Choice choose(const RouterTopk& op, const Floats& logits) {
  const RouterSpec& spec = op.spec;
  if (spec.score == RouterScore::kSparsemixer) return choose_two(logits, spec.jitter);
  Floats scores = softmax(logits);
  if (spec.score == RouterScore::kSigmoid)
    for (size_t e = 0; e < scores.size(); ++e) scores[e] = 1 / (1 + std::exp(-logits[e]));
  Floats keys = op.bias || spec.groups > 1 ? scores : logits;
  if (op.bias) {
    Floats bias(keys.size());
    std::memcpy(bias.data(), op.bias.row(0), bias.size() * sizeof(float));
    for (size_t e = 0; e < keys.size(); ++e) keys[e] += bias[e];
  }
  if (spec.groups > 1) leave_groups(spec, keys);
  Choice choice{best(keys, static_cast<size_t>(op.experts.cols)), {}};
  double sum = 0;
  for (const int32_t e : choice.experts) {
    choice.weights.push_back(scores[static_cast<size_t>(e)]);
    sum += static_cast<double>(choice.weights.back());
  }
  const double by = spec.renormalize ? std::max(sum, static_cast<double>(spec.least_sum)) : 1;
  for (float& w : choice.weights) w = static_cast<float>(static_cast<double>(w) / by * static_cast<double>(spec.scale));
  return choice;
}

}  // namespace

void run(const RouterTopk& op, Ctx& ctx) {
  for (int64_t t = 0; t < ctx.rows(op.logits); ++t) {
    const Floats logits(op.logits.f32(t), op.logits.f32(t) + op.logits.cols);
    const bool bad = std::ranges::any_of(logits, [](float v) { return !std::isfinite(v); });
    if (bad) {
      std::iota(op.experts.row<int32_t>(t), op.experts.row<int32_t>(t) + op.experts.cols, 0);
      std::fill_n(op.weights.f32(t), op.weights.cols, NAN);
      continue;
    }
    const Choice choice = choose(op, logits);
    std::vector<size_t> order(choice.experts.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](size_t i) { return choice.experts[i]; });
    for (size_t j = 0; j < order.size(); ++j) {
      op.experts.row<int32_t>(t)[j] = choice.experts[order[j]];
      op.weights.f32(t)[j] = choice.weights[order[j]];
    }
  }
}

}  // namespace ingot::ref
