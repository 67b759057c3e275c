#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "cpu/cpu_math.h"
#include "ops/router_topk/router_topk.h"
#include "ops/row_loop.h"

namespace ingot::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The index of the largest, the lowest of equal ones; 0 where none is above minus infinity.
int32_t largest_of(const float* x, int32_t n) {
  int32_t best = 0;
  float most = kNever;
  for (int32_t e = 0; e < n; ++e) {
    if (x[e] > most) most = x[e], best = e;
  }
  return best;
}

void softmax(const float* x, int32_t n, float* out) {
  const float largest = x[largest_of(x, n)];
  float sum = 0;
  for (int32_t e = 0; e < n; ++e) sum += out[e] = exp_f32(x[e] - largest);
  for (int32_t e = 0; e < n; ++e) out[e] /= sum;
}

// Marks the k best of n in `chosen`. Where fewer are above minus infinity, the first of the others.
void mark_best(const float* keys, int32_t n, int64_t k, bool* chosen) {
  for (int32_t e = 0; e < n; ++e) chosen[e] = false;
  for (int64_t i = 0; i < k; ++i) {
    int32_t best = -1;
    float most = kNever;
    for (int32_t e = 0; e < n; ++e) {
      if (!chosen[e] && keys[e] > most) most = keys[e], best = e;
    }
    for (int32_t e = 0; best < 0 && e < n; ++e) {
      if (!chosen[e]) best = e;
    }
    chosen[best] = true;
  }
}

// Experts outside the best groups get minus infinity.
void leave_groups(const RouterSpec& spec, float* keys, int32_t n) {
  const int32_t size = n / spec.groups;
  float scores[kMostExperts];
  bool kept[kMostExperts];
  for (int32_t g = 0; g < spec.groups; ++g) {
    float first = kNever, second = kNever;
    for (int32_t e = g * size; e < (g + 1) * size; ++e) {
      second = std::max(second, std::min(first, keys[e]));
      first = std::max(first, keys[e]);
    }
    scores[g] = spec.group_score == GroupScore::kBestTwo && size > 1 ? first + second : first;
  }
  mark_best(scores, spec.groups, spec.groups_used, kept);
  for (int32_t e = 0; e < n; ++e) {
    if (!kept[e / size]) keys[e] = kNever;
  }
}

// The share of `chosen` among those of `allowed` that lie near it.
float share_of(const float* logits, const float* allowed, int32_t n, int32_t chosen, float jitter) {
  const float largest = allowed[chosen];
  float sum = 0;
  for (int32_t e = 0; e < n; ++e) {
    const float factor = std::max(std::fabs(logits[e]), largest);
    if ((largest - logits[e]) / factor > 2 * jitter) continue;
    sum += exp_f32(allowed[e] - largest);
  }
  return 1.0f / sum;
}

void choose_two(const RouterTopk& op, const float* logits, int32_t* experts, float* weights) {
  const auto n = static_cast<int32_t>(op.logits.cols);
  float rest[kMostExperts];
  std::copy_n(logits, n, rest);
  const int32_t first = largest_of(logits, n);
  rest[first] = kNever;
  const int32_t second = n > 1 && largest_of(rest, n) == first ? (first == 0 ? 1 : 0) : largest_of(rest, n);
  const float w[2] = {share_of(logits, logits, n, first, op.spec.jitter),
                      share_of(logits, rest, n, second, op.spec.jitter)};
  const int swap = first > second ? 1 : 0;
  experts[swap] = first;
  experts[1 - swap] = second;
  weights[swap] = w[0];
  weights[1 - swap] = w[1];
}

void choose(const RouterTopk& op, const float* logits, int32_t* experts, float* weights) {
  const RouterSpec& spec = op.spec;
  const auto n = static_cast<int32_t>(op.logits.cols);
  const int64_t k = op.experts.cols;
  float scores[kMostExperts], keys[kMostExperts];
  bool chosen[kMostExperts];
  if (spec.score == RouterScore::kSoftmax) {
    softmax(logits, n, scores);
  } else {
    for (int32_t e = 0; e < n; ++e) scores[e] = sigmoid_f32(logits[e]);
  }
  // Scores grow with the logits, which tell more of them apart.
  std::copy_n(op.bias || spec.groups > 1 ? scores : logits, n, keys);
  if (op.bias) {
    const auto* bias = reinterpret_cast<const float*>(op.bias.data);
    for (int32_t e = 0; e < n; ++e) keys[e] += bias[e];
  }
  if (spec.groups > 1) leave_groups(spec, keys, n);
  mark_best(keys, n, k, chosen);
  float sum = 0;
  int64_t j = 0;
  for (int32_t e = 0; e < n; ++e) {
    if (!chosen[e]) continue;
    experts[j] = e;
    sum += weights[j++] = scores[e];
  }
  if (spec.renormalize) {
    for (j = 0; j < k; ++j) weights[j] /= std::max(sum, spec.least_sum);
  }
  for (j = 0; j < k; ++j) weights[j] *= spec.scale;
}

}  // namespace

void run(const RouterTopk& op, Ctx& ctx) {
  const int64_t n = op.logits.cols, k = op.experts.cols;
  CHECK(n <= kMostExperts && k <= n, "{} of {} experts", k, n);
  split_rows(ctx, ctx.rows(op.logits), n * (8 + k), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* logits = op.logits.f32(t);
      auto* experts = op.experts.row<int32_t>(t);
      float* weights = op.weights.f32(t);
      bool bad = false;
      for (int64_t e = 0; e < n; ++e) bad |= !std::isfinite(logits[e]);
      if (bad) {
        std::iota(experts, experts + k, 0);
        std::fill_n(weights, k, std::numeric_limits<float>::quiet_NaN());
      } else if (op.spec.score == RouterScore::kSparsemixer) {
        choose_two(op, logits, experts, weights);
      } else {
        choose(op, logits, experts, weights);
      }
    }
  });
}

}  // namespace ingot::cpu
