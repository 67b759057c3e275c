// For the tests of Sample that compare versions of it: random rows with every parameter, and what must agree.
#pragma once

#include "ops/sample/sample_test_support.h"

namespace ingot::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::vector<float> random_logits(Random& random, int64_t n) {
  std::vector<float> logits(static_cast<size_t>(n));
  const int64_t kind = random.below(5);
  const float spread = static_cast<float>(1 << random.below(5));
  for (float& l : logits) {
    switch (kind) {
      case 0:
        l = spread * random.normal();
        break;
      case 1:  // ties
        l = static_cast<float>(random.below(6));
        break;
      case 2:  // a few likely ones
        l = random.below(n / 20 + 2) == 0 ? 12 + random.normal() : random.normal();
        break;
      case 3:
        l = random.below(3) == 0 ? -kInfinity : spread * random.normal();
        break;
      default:  // all equal
        l = spread;
    }
  }
  return logits;
}

template <class T>
T pick(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(static_cast<int64_t>(values.size()))];
}

// Each feature is on in a third of the cases.
inline Case random_case(Random& random, int64_t n) {
  const auto third = [&] { return random.below(3) == 0; };
  const auto token = [&] { return static_cast<int32_t>(random.below(n)); };
  Case c;
  c.logits = random_logits(random, n);
  SamplingParams& p = c.params;
  p.temperature = pick(random, {0.0f, 0.3f, 0.7f, 1.0f, 1.0f, 1.5f, 20.0f, 1e-6f, 1e6f});
  if (third()) p.top_k = static_cast<int>(1 + random.below(third() ? n + 5 : 60));
  if (third()) p.top_p = pick(random, {0.0f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f});
  if (third()) p.min_p = pick(random, {0.01f, 0.05f, 0.3f, 1.0f});
  if (third()) p.typical_p = pick(random, {0.1f, 0.2f, 0.5f, 0.95f});
  if (third()) {
    p.xtc_probability = pick(random, {0.5f, 1.0f});
    p.xtc_threshold = pick(random, {0.0f, 0.01f, 0.1f, 0.3f});
  }
  if (third()) p.repetition_penalty = pick(random, {0.8f, 1.1f, 2.0f});
  if (third()) p.presence_penalty = pick(random, {-1.0f, 0.5f, 2.0f});
  if (third()) p.frequency_penalty = pick(random, {-0.3f, 0.4f, 1.0f});
  if (third()) p.penalty_last_n = static_cast<int>(random.below(30));
  if (third()) {
    p.dry_multiplier = pick(random, {0.8f, 5.0f});
    p.dry_allowed_length = static_cast<int>(random.below(4));
    if (third()) p.dry_last_n = static_cast<int>(random.below(40));
    for (int64_t i = random.below(3); i > 0; --i) p.dry_breakers.push_back(static_cast<int32_t>(random.below(6)));
  }
  if (third()) {
    for (int64_t i = random.below(8); i > 0; --i)
      p.logit_bias.emplace_back(token(), pick(random, {-kInfinity, -100.0f, -1.0f, 2.5f, 100.0f}));
    if (third()) p.logit_bias.emplace_back(token(), kInfinity);
    p.logit_bias.emplace_back(-1, 5.0f);
    p.logit_bias.emplace_back(static_cast<int32_t>(n), kInfinity);
  }
  if (third()) {
    // Sometimes some words short: the rest is not allowed.
    c.mask.resize(static_cast<size_t>((n + 31) / 32 - (n > 64 && third() ? 1 : 0)));
    for (uint32_t& word : c.mask) word = static_cast<uint32_t>(random.bits() | random.bits());
  }
  p.n_logprobs = static_cast<int>(random.below(8)) - 1;
  p.seed = random.bits();
  // Few different tokens at times, so that the end repeats what came before.
  const int64_t different = third() ? 3 : n;
  for (int64_t i = random.below(80); i > 0; --i) c.history.push_back(static_cast<int32_t>(random.below(different)));
  if (third()) c.history.push_back(pick(random, {-1, static_cast<int32_t>(n)}));
  c.prompt_tokens = c.history.empty() ? 0 : random.below(static_cast<int64_t>(c.history.size()) + 1);
  c.choice = static_cast<int32_t>(random.below(4));
  c.position = static_cast<int32_t>(random.below(100000));
  return c;
}

inline void expect_same(const SampleResult& got, const SampleResult& want, const std::string& what) {
  ASSERT_EQ(got.token, want.token) << what;
  EXPECT_NEAR(got.logprob, want.logprob, 1e-6 * (1 + std::fabs(want.logprob))) << what;
  ASSERT_EQ(got.top.size(), want.top.size()) << what;
  for (size_t i = 0; i < want.top.size(); ++i) {
    EXPECT_EQ(got.top[i].token, want.top[i].token) << what;
    if (got.top[i].logprob == want.top[i].logprob) continue;  // -inf too
    EXPECT_NEAR(got.top[i].logprob, want.top[i].logprob, 1e-6 * (1 + std::fabs(want.top[i].logprob))) << what;
  }
}

}  // namespace ingot::test
