#include "cli/sampling_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>

namespace ingot {
namespace {

SamplingOptions parse(const std::string& line) {
  SamplingOptions options;
  CLI::App app;
  add_sampling_options(app, options);
  app.parse(line);
  return options;
}

TEST(SamplingOptions, NumbersInRange) {
  const auto check = number_in(0, 1);
  for (const char* text : {"0", "1", "0.5", "1e-3"}) EXPECT_EQ(check(text), "") << text;
  for (const char* text : {"", "nan", "-0.1", "1.1", "inf", "0.5x", " ", "--"}) EXPECT_NE(check(text), "") << text;
}

TEST(SamplingOptions, IntegersInRange) {
  const auto check = integer_in(0, 10);
  for (const char* text : {"0", "7", "10"}) EXPECT_EQ(check(text), "") << text;
  for (const char* text : {"", "-5", "11", "1.5", "x", "99999999999999999999"}) EXPECT_NE(check(text), "") << text;
}

TEST(SamplingOptions, OnlyWhatIsGivenReplacesTheModels) {
  SamplingParams base;
  base.temperature = 0.6f;
  base.top_p = 0.8f;
  const SamplingParams p = sampling_params(parse("--temp 0 --top-k 7 --seed 18446744073709551615"), base);
  EXPECT_EQ(p.temperature, 0);
  EXPECT_EQ(p.top_k, 7);
  EXPECT_EQ(p.top_p, 0.8f);
  EXPECT_EQ(p.seed, UINT64_MAX);
}

TEST(SamplingOptions, EveryOption) {
  const SamplingOptions o = parse(
      "-n 5 --min-p 0.1 --typical 0.2 --repeat-penalty 1.5 --presence-penalty -1 --frequency-penalty 2 "
      "--penalty-last-n 64 --dry-multiplier 0.8 --dry-base 2 --dry-allowed-length 3 --dry-last-n 100 "
      "--xtc-probability 0.5 --xtc-threshold 0.2 --logit-bias 5:-inf --logit-bias 6:1.5 --stop a --stop b");
  EXPECT_EQ(o.max_tokens, 5);
  EXPECT_EQ(o.stop, (std::vector<std::string>{"a", "b"}));
  const SamplingParams p = sampling_params(o, {});
  EXPECT_EQ(p.min_p, 0.1f);
  EXPECT_EQ(p.typical_p, 0.2f);
  EXPECT_EQ(p.repetition_penalty, 1.5f);
  EXPECT_EQ(p.presence_penalty, -1);
  EXPECT_EQ(p.frequency_penalty, 2);
  EXPECT_EQ(p.penalty_last_n, 64);
  EXPECT_EQ(p.dry_multiplier, 0.8f);
  EXPECT_EQ(p.dry_base, 2);
  EXPECT_EQ(p.dry_allowed_length, 3);
  EXPECT_EQ(p.dry_last_n, 100);
  EXPECT_EQ(p.xtc_probability, 0.5f);
  EXPECT_EQ(p.xtc_threshold, 0.2f);
  ASSERT_EQ(p.logit_bias.size(), 2u);
  EXPECT_EQ(p.logit_bias[0].first, 5);
  EXPECT_EQ(p.logit_bias[0].second, -INFINITY);
  EXPECT_EQ(p.logit_bias[1].second, 1.5f);
}

TEST(SamplingOptions, RandomSeedsDiffer) {
  EXPECT_NE(sampling_params({}, {}).seed, sampling_params({}, {}).seed);
  EXPECT_LT(sampling_params({}, {}).seed, uint64_t{1} << 53);
}

}  // namespace
}  // namespace ingot
