#include "cli/sampling_options.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "engine/sampler.h"
#include "serve/api/generation.h"
#include "serve/api/limits.h"

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

// ---- The one table: each number by the API, on the command line and in the engine's check ----

// What the API makes of a body with this number; none where it refuses it by its name.
std::optional<double> by_api(const SamplingNumber& n, double value, const FieldTable& table) {
  JsonObject body{{"prompt", "x"}, {"max_tokens", 1}};
  if (&table == &kMessagesFields)
    body = {{"messages", JsonArray{JsonObject{{"role", "user"}, {"content", "x"}}}}, {"max_tokens", 1}};
  body[n.name] = n.integer ? Json(static_cast<int64_t>(value)) : Json(value);
  try {
    const Json json = read_body(to_json(body), table);
    Generation generation;
    read_common(Fields(json.get_object()), ServedModel{}, generation);
    return n.of(generation.sampling);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.param, n.name);
    return std::nullopt;
  }
}

std::optional<double> by_command_line(const SamplingNumber& n, double value) {
  try {
    return n.of(sampling_params(parse(fmt::format("{} {}", n.option, value)), {}));
  } catch (const CLI::ValidationError& error) {
    EXPECT_NE(std::string(error.what()).find(n.option), std::string::npos) << error.what();
    return std::nullopt;
  }
}

std::optional<double> by_engine(const SamplingNumber& n, double value) {
  SamplingParams params;
  n.set(params, value);
  const std::string wrong = check_sampling(params, 100);
  EXPECT_TRUE(wrong.empty() || wrong.starts_with(n.name)) << wrong;
  return wrong.empty() ? std::optional(n.of(params)) : std::nullopt;
}

// The nearest value that the range leaves out.
double beyond(const SamplingNumber& n, double end, int way) {
  if (n.integer) return end + way;
  return static_cast<double>(std::nextafter(static_cast<float>(end), way < 0 ? -INFINITY : INFINITY));
}

TEST(SamplingNumbers, OneRangeForApiCommandLineAndEngine) {
  for (const SamplingNumber& n : kSamplingNumbers) {
    SCOPED_TRACE(n.name);
    ASSERT_NE(n.number == nullptr, n.integer == nullptr);
    EXPECT_TRUE(n.in_range(n.of(SamplingParams{})));
    EXPECT_TRUE(n.hint || n.gguf == nullptr);
    for (const double end : {n.low, n.high}) {
      const double want = n.integer ? end : static_cast<double>(static_cast<float>(end));
      EXPECT_EQ(by_api(n, end, kCompletionFields), want);
      EXPECT_EQ(by_command_line(n, end), want);
      EXPECT_EQ(by_engine(n, end), want);
    }
    const double below = beyond(n, n.low, -1), above = beyond(n, n.high, 1);
    // OpenAI's clients may say -1 where 0 is meant.
    const bool minus_one = n.integer == &SamplingParams::top_k;
    EXPECT_EQ(by_api(n, below, kCompletionFields), minus_one ? std::optional(0.0) : std::nullopt);
    if (minus_one) {
      EXPECT_EQ(by_api(n, -2, kCompletionFields), std::nullopt);
      EXPECT_EQ(by_api(n, below, kMessagesFields), std::nullopt);
    }
    EXPECT_EQ(by_command_line(n, below), std::nullopt);
    EXPECT_EQ(by_engine(n, below), std::nullopt);
    EXPECT_EQ(by_api(n, above, kCompletionFields), std::nullopt);
    EXPECT_EQ(by_command_line(n, above), std::nullopt);
    EXPECT_EQ(by_engine(n, above), std::nullopt);
  }
}

TEST(SamplingNumbers, WhatIsToldOfThem) {
  const JsonObject limits = field_limits();
  const JsonObject& chat = limits.at("/v1/chat/completions").as_object();
  const std::string help = more_sampling_options();
  for (const SamplingNumber& n : kSamplingNumbers) {
    SCOPED_TRACE(n.name);
    const JsonObject& field = chat.at(n.name).as_object();
    EXPECT_EQ(field.at("maximum").to_number<double>(), n.high);
    EXPECT_EQ(field.contains("default"), !n.hint);
    EXPECT_EQ(help.find(n.option) == std::string::npos, n.help != nullptr);
  }
  EXPECT_EQ(chat.at("xtc_threshold").at("default").to_number<double>(), 0.1);
  SamplingParams params;
  params.dry_base = 3;
  params.seed = 7;
  EXPECT_EQ(sampling_text(params),
            "temperature 1, top-k 0, top-p 1, min-p 0, repetition-penalty 1, dry-base 3, seed 7");
}

TEST(SamplingNumbers, WhichLookBack) {
  for (const SamplingNumber& n : kSamplingNumbers) {
    SamplingParams params;
    n.set(params, n.of(params) == n.high ? n.low : n.high);
    EXPECT_EQ(reads_history(params), n.history) << n.name;
  }
  EXPECT_FALSE(reads_history({}));
}

TEST(SamplingOptions, RandomSeedsDiffer) {
  EXPECT_NE(sampling_params({}, {}).seed, sampling_params({}, {}).seed);
  EXPECT_LT(sampling_params({}, {}).seed, uint64_t{1} << 53);
}

}  // namespace
}  // namespace ingot
