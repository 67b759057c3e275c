#include "ops/sample/sample.h"

#include "ops/sample/sample_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::vector<float> kTwelve = {2.0f, 1.5f, 1.0f, 0.8f, 0.5f, 0.3f, 0.0f, -0.2f, -0.5f, -1.0f, 1.2f, 0.1f};

Case twelve() {
  Case c;
  c.logits = kTwelve;
  return c;
}

Case with(Case c, auto change) {
  change(c.params);
  return c;
}

using Tokens = std::vector<int32_t>;

TEST(Sample, DrawsFromTheSoftmax) {
  for (const float temperature : {0.5f, 1.0f, 3.0f, 1e6f}) {
    const Case c = with(twelve(), [&](auto& p) { p.temperature = temperature; });
    EXPECT_LT(chi_square_sigma(draw_counts(c, 60000), softmax_of(c.logits, temperature)), 4) << temperature;
  }
}

TEST(Sample, DrawsFromALargeVocabulary) {
  Random random(2);
  Case c;
  for (int i = 0; i < 500; ++i) c.logits.push_back(random.normal());
  EXPECT_LT(chi_square_sigma(draw_counts(c, 100000), softmax_of(c.logits, 1)), 4);
}

TEST(Sample, OtherSeedsAndChoicesDrawOtherTokens) {
  Case c = twelve();
  std::vector<int> agree(3);
  for (int i = 0; i < 2000; ++i) {
    c.position = i;
    const int32_t token = sample_one(c).token;
    agree[0] += token == sample_one(c).token;
    agree[1] += token == sample_one(with(c, [](auto& p) { p.seed = 1; })).token;
    Case other = c;
    other.choice = 1;
    agree[2] += token == sample_one(other).token;
  }
  double expected = 0;  // of two independent draws
  for (const double p : softmax_of(kTwelve, 1)) expected += 2000 * p * p;
  EXPECT_EQ(agree[0], 2000);
  EXPECT_NEAR(agree[1], expected, 5 * std::sqrt(expected));
  EXPECT_NEAR(agree[2], expected, 5 * std::sqrt(expected));
}

TEST(Sample, TruncationKeepsTheRightSets) {
  const auto kept = [](auto change) { return drawn(with(twelve(), change)); };
  // As other implementations of these papers give for the same logits.
  EXPECT_EQ(kept([](auto& p) { p.typical_p = 0.2f; }), (Tokens{2, 10}));
  EXPECT_EQ(kept([](auto& p) { p.typical_p = 0.5f; }), (Tokens{1, 2, 3, 4, 10}));
  EXPECT_EQ(kept([](auto& p) { p.typical_p = 0.9f; }), (Tokens{0, 1, 2, 3, 4, 5, 6, 10, 11}));
  EXPECT_EQ(kept([](auto& p) { p.top_p = 0.2f; }), (Tokens{0}));
  EXPECT_EQ(kept([](auto& p) { p.top_p = 0.5f; }), (Tokens{0, 1, 10}));
  EXPECT_EQ(kept([](auto& p) { p.top_p = 0.9f; }), (Tokens{0, 1, 2, 3, 4, 5, 6, 10, 11}));
  EXPECT_EQ(kept([](auto& p) { p.min_p = 0.1f; }), (Tokens{0, 1, 2, 3, 4, 5, 6, 7, 10, 11}));
  EXPECT_EQ(kept([](auto& p) { p.min_p = 0.3f; }), (Tokens{0, 1, 2, 3, 10}));
  EXPECT_EQ(kept([](auto& p) { p.min_p = 0.6f; }), (Tokens{0, 1}));
  EXPECT_EQ(kept([](auto& p) { p.top_k = 3; }), (Tokens{0, 1, 10}));
  EXPECT_EQ(kept([](auto& p) { p.top_k = 500; }).size(), 12u);
  Case peaked;
  for (const float p : {0.5f, 0.12f, 0.11f, 0.1f, 0.09f, 0.08f}) peaked.logits.push_back(std::log(p));
  EXPECT_EQ(drawn(with(peaked, [](auto& p) { p.typical_p = 0.2f; })), (Tokens{1, 2}));
  EXPECT_EQ(drawn(with(peaked, [](auto& p) { p.typical_p = 0.4f; })), (Tokens{0, 1, 2}));
}

TEST(Sample, EachTruncationSeesWhatTheOneBeforeLeft) {
  // Of the three that top-k leaves (0.486, 0.295, 0.219 of their mass) top-p 0.75 keeps two.
  EXPECT_EQ(drawn(with(twelve(),
                       [](auto& p) {
                         p.top_k = 3;
                         p.top_p = 0.75f;
                       })),
            (Tokens{0, 1}));
  // Typical removes the likeliest; min-p is relative to the likeliest that is left.
  EXPECT_EQ(drawn(with(twelve(),
                       [](auto& p) {
                         p.typical_p = 0.5f;
                         p.min_p = 0.6f;
                       })),
            (Tokens{1, 2, 10}));
}

TEST(Sample, TruncatedDrawsAreRenormalized) {
  const Case c = with(twelve(), [](auto& p) { p.top_p = 0.5f; });
  std::vector<double> p(12);
  const double sum = std::exp(2.0) + std::exp(1.5) + std::exp(1.2f);
  p[0] = std::exp(2.0) / sum;
  p[1] = std::exp(1.5) / sum;
  p[10] = std::exp(1.2f) / sum;
  EXPECT_LT(chi_square_sigma(draw_counts(c, 60000), p), 4);
}

TEST(Sample, EqualLogitsAreCutByTheirIds) {
  Case c;
  c.logits.assign(1000, 1.5f);
  EXPECT_EQ(drawn(with(c, [](auto& p) { p.top_k = 3; }), 500), (Tokens{0, 1, 2}));
  EXPECT_EQ(drawn(with(c, [](auto& p) { p.top_p = 0.004f; }), 500).size(), 5u);  // 0.004f is a little more than 0.004
  EXPECT_EQ(drawn(with(c, [](auto& p) { p.typical_p = 0.0035f; }), 500), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(sample_one(with(c, [](auto& p) { p.temperature = 0; })).token, 0);
}

TEST(Sample, XtcRemovesAllButTheLeastLikelyAboveTheThreshold) {
  Case c;
  for (const float p : {0.5f, 0.3f, 0.15f, 0.05f}) c.logits.push_back(std::log(p));
  c.params.xtc_threshold = 0.1f;
  c.params.xtc_probability = 1;
  EXPECT_EQ(drawn(c), (Tokens{2, 3}));
  c.params.xtc_threshold = 0.4f;  // only one is above: nothing happens
  EXPECT_EQ(drawn(c).size(), 4u);
  c.params.xtc_threshold = 0.2f;
  c.params.xtc_probability = 0.25f;
  const double p = 0.25 * 0 + 0.75 * 0.5;  // token 0 survives in three quarters of the draws
  EXPECT_NEAR(draw_counts(c, 40000)[0], 40000 * p, 5 * std::sqrt(40000 * p));
}

TEST(Sample, GreedyIsTheArgmax) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    Case c;
    for (int i = 0; i < 150; ++i) c.logits.push_back(static_cast<float>(random.below(30)));
    c.position = round;
    const auto want = static_cast<int32_t>(std::max_element(c.logits.begin(), c.logits.end()) - c.logits.begin());
    EXPECT_EQ(sample_one(with(c, [](auto& p) { p.temperature = 0; })).token, want);
    EXPECT_EQ(sample_one(with(c, [](auto& p) { p.top_k = 1; })).token, want);
    EXPECT_EQ(sample_one(with(c, [](auto& p) { p.top_p = 0; })).token, want);
    c.logits[static_cast<size_t>(want)] += 0.5f;
    EXPECT_EQ(sample_one(with(c, [](auto& p) { p.temperature = 1e-6f; })).token, want);
    EXPECT_EQ(sample_one(with(c, [](auto& p) { p.min_p = 1; })).token, want);
  }
}

TEST(Sample, PenaltiesOnKnownNumbers) {
  Case c;
  c.logits = {2.0f, -1.0f, 1.9f, 0.5f};
  c.params.temperature = 0;
  c.history = {0, 1, 2, 2, 2};
  c.prompt_tokens = 2;
  EXPECT_EQ(sample_one(c).token, 0);
  // Prompt and output: 2 / 1.5 = 1.33, -1.5, 1.9 / 1.5 = 1.27.
  c.params.repetition_penalty = 1.5f;
  EXPECT_EQ(sample_one(c).token, 0);
  c.params.penalty_last_n = 5;
  EXPECT_EQ(sample_one(c).token, 0);
  c.params.repetition_penalty = 5;  // 0.4, -5, 0.38, 0.5
  EXPECT_EQ(sample_one(c).token, 3);
  c.params.penalty_last_n = 3;  // token 0 is out of sight
  EXPECT_EQ(sample_one(c).token, 0);
  // Output only: token 2 three times.
  c.params = {};
  c.params.temperature = 0;
  c.logits = {1.0f, 0.0f, 2.0f, 0.5f};
  c.params.frequency_penalty = 0.3f;  // 2 - 0.9
  EXPECT_EQ(sample_one(c).token, 2);
  c.params.frequency_penalty = 0.4f;  // 2 - 1.2
  EXPECT_EQ(sample_one(c).token, 0);
  c.params.frequency_penalty = 0;
  c.params.presence_penalty = 0.9f;
  EXPECT_EQ(sample_one(c).token, 2);
  c.params.presence_penalty = 1.1f;
  EXPECT_EQ(sample_one(c).token, 0);
  c.prompt_tokens = 5;  // nothing is output
  EXPECT_EQ(sample_one(c).token, 2);
}

TEST(Sample, DryOnKnownNumbers) {
  Case c;
  c.logits.assign(10, 0.0f);
  c.logits[4] = 1.0f;
  c.params.temperature = 0;
  c.params.dry_multiplier = 0.5f;
  c.params.dry_base = 2.0f;
  c.params.dry_allowed_length = 2;
  // 1 2 3 was followed by 4 before: a match of 3, penalty 0.5 · 2 = 1.
  c.history = {1, 2, 3, 4, 5, 1, 2, 3};
  EXPECT_EQ(sample_one(c).token, 0);
  c.logits[4] = 1.1f;
  EXPECT_EQ(sample_one(c).token, 4);
  c.logits[4] = 0.4f;
  c.params.dry_allowed_length = 4;  // the match is too short
  EXPECT_EQ(sample_one(c).token, 4);
  c.params.dry_allowed_length = 2;
  c.params.dry_breakers = {2};  // leaves a match of 1
  EXPECT_EQ(sample_one(c).token, 4);
  c.params.dry_breakers = {4};  // a breaker is never penalized
  EXPECT_EQ(sample_one(c).token, 4);
  c.params.dry_breakers = {9};
  EXPECT_EQ(sample_one(c).token, 0);
  c.params.dry_last_n = 6;  // sees 3 4 5 1 2 3 : a match of 1
  EXPECT_EQ(sample_one(c).token, 4);
  // The longest match counts, matches may overlap: six 7s are followed by 7 after a match of 5.
  c.params.dry_last_n = -1;
  c.history.assign(6, 7);
  c.logits.assign(10, 0.0f);
  c.logits[7] = 3.9f;  // less than 0.5 · 2^3
  EXPECT_EQ(sample_one(c).token, 0);
  c.logits[7] = 4.1f;
  EXPECT_EQ(sample_one(c).token, 7);
}

TEST(Sample, BiasAndMask) {
  Case c = twelve();
  c.params.temperature = 0;
  c.params.logit_bias = {{9, 4.0f}};
  EXPECT_EQ(sample_one(c).token, 9);
  c.params.logit_bias = {{0, -kInf}, {1, -1.0f}};
  EXPECT_EQ(sample_one(c).token, 10);
  c.params.temperature = 1;
  for (const int32_t token : drawn(c)) EXPECT_NE(token, 0);
  c.params.logit_bias = {{9, kInf}, {8, kInf}};  // only these two, by their own logits
  EXPECT_LT(chi_square_sigma(draw_counts(c, 20000),
                             {0, 0, 0, 0, 0, 0, 0, 0, 1 / (1 + std::exp(-0.5)), 1 / (1 + std::exp(0.5)), 0, 0}),
            4);
  c.params.logit_bias.clear();
  c.mask = {0b0010'0010'0100u};
  EXPECT_EQ(drawn(c), (Tokens{2, 5, 9}));
  c.params.top_k = 1;
  EXPECT_EQ(sample_one(c).token, 2);
  c.mask = {0};
  EXPECT_EQ(sample_one(c).token, -1);
}

TEST(Sample, BadRowsGiveNoTokenAndHarmNoOther) {
  std::vector<Case> cases(7, twelve());
  for (Case& c : cases) c.params.n_logprobs = 2;
  cases[1].logits[3] = kNan;
  cases[2].logits[3] = kInf;
  std::fill(cases[3].logits.begin(), cases[3].logits.end(), -kInf);
  cases[4].logits[11] = kNan;
  cases[4].mask = {1};  // the mask does not hide it
  cases[5].params.temperature = 0;
  cases[5].logits[0] = kNan;
  for (const int threads : {0, 1, 2}) {
    const std::vector<SampleResult> got = sample(cases, threads);
    const int32_t good = sample_one(cases[0]).token;
    EXPECT_EQ(got[0].token, good);
    EXPECT_EQ(got[6].token, good);
    for (size_t r = 1; r < 6; ++r) {
      EXPECT_EQ(got[r].token, -1) << r;
      EXPECT_TRUE(got[r].top.empty()) << r;
    }
  }
}

TEST(Sample, SameTokensWhateverTheBatch) {
  Random random(4);
  std::vector<Case> cases;
  for (int i = 0; i < 40; ++i) {
    Case c;
    for (int v = 0; v < 3000; ++v) c.logits.push_back(3 * random.normal());
    c.params.seed = random.bits();
    c.position = i;
    if (i % 2) c.params.top_p = 0.8f;
    if (i % 3) c.params.typical_p = 0.7f;
    if (i % 5 == 0) c.params.top_k = 30;
    c.params.n_logprobs = 3;
    cases.push_back(c);
  }
  const std::vector<SampleResult> together = sample(cases, 2);
  std::vector<Case> reversed(cases.rbegin(), cases.rend());
  const std::vector<SampleResult> backwards = sample(reversed, 3);
  for (size_t i = 0; i < cases.size(); ++i) {
    const SampleResult alone = sample_one(cases[i]);
    EXPECT_EQ(alone.token, together[i].token);
    EXPECT_EQ(alone.token, backwards[cases.size() - 1 - i].token);
    EXPECT_EQ(std::bit_cast<uint32_t>(alone.logprob), std::bit_cast<uint32_t>(together[i].logprob));
  }
}

TEST(Sample, LogprobsAreOfTheModelsOwnDistribution) {
  Case c = twelve();
  c.params.temperature = 0.2f;
  c.params.logit_bias = {{7, 50.0f}};
  c.params.n_logprobs = 3;
  const std::vector<double> p = softmax_of(kTwelve, 1);
  const SampleResult result = sample_one(c);
  EXPECT_EQ(result.token, 7);
  EXPECT_NEAR(result.logprob, std::log(p[7]), 1e-6);
  ASSERT_EQ(result.top.size(), 3u);
  const size_t order[] = {0, 1, 10};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.top[i].token, static_cast<int32_t>(order[i]));
    EXPECT_NEAR(result.top[i].logprob, std::log(p[order[i]]), 1e-6);
  }
  c.params.n_logprobs = 100;
  EXPECT_EQ(sample_one(c).top.size(), 12u);
  c.params.n_logprobs = 0;
  EXPECT_TRUE(sample_one(c).top.empty());
  EXPECT_LT(sample_one(c).logprob, 0);
  c.params.n_logprobs = -1;
  EXPECT_EQ(sample_one(c).logprob, 0);
}

}  // namespace
}  // namespace ingot
