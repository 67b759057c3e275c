#include "cli/sampling_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "base/utf8.h"

namespace ingot {

namespace {

std::optional<double> to_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && end == text.c_str() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

template <class T>
std::optional<T> to_integer(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

struct Bias {
  int32_t token;
  float bias;
};

std::optional<Bias> to_bias(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto token = to_integer<int32_t>(std::string_view(text).substr(0, colon));
  const auto bias = to_number(text.substr(colon + 1));
  if (!token || *token < 0 || !bias || std::isnan(*bias)) return std::nullopt;
  return Bias{*token, static_cast<float>(*bias)};
}

std::string check_bias(const std::string& text) {
  return to_bias(text) ? "" : fmt::format("'{}' is not ID:BIAS, such as 42:-1.5 or 42:-inf", utf8_printable(text));
}

std::string check_seed(const std::string& text) {
  return to_integer<uint64_t>(text) ? "" : fmt::format("'{}' is not a whole number from 0", utf8_printable(text));
}

template <class T>
CLI::Option* add_number(CLI::App& app, const char* name, T& value, double low, double high, const char* help) {
  return app.add_option(name, value, help)->check(number_in(low, high))->type_name("X");
}

template <class T>
CLI::Option* add_integer(CLI::App& app, const char* name, T& value, int64_t low, const char* help) {
  return app.add_option(name, value, help)->check(integer_in(low, 1'000'000'000))->type_name("N");
}

// Kept out of the list of --help so that it fits a screen; kMoreSamplingOptions names them.
constexpr const char* kHiddenGroup = "More";

class ShortFormatter : public CLI::Formatter {
 public:
  explicit ShortFormatter(const CLI::Formatter& other) : CLI::Formatter(other) {}
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    return group == kHiddenGroup ? "" : CLI::Formatter::make_group(group, is_positional, options);
  }
};

void add_more_options(CLI::App& app, SamplingOptions& o) {
  const std::vector<CLI::Option*> hidden = {
      add_number(app, "--typical", o.typical_p, 0, 1, ""),
      add_number(app, "--presence-penalty", o.presence_penalty, -1000, 1000, ""),
      add_number(app, "--frequency-penalty", o.frequency_penalty, -1000, 1000, ""),
      add_integer(app, "--penalty-last-n", o.penalty_last_n, -1, ""),
      add_number(app, "--dry-multiplier", o.dry_multiplier, 0, 1000, ""),
      add_number(app, "--dry-base", o.dry_base, 1, 1000, ""),
      add_integer(app, "--dry-allowed-length", o.dry_allowed_length, 0, ""),
      add_integer(app, "--dry-last-n", o.dry_last_n, -1, ""),
      add_number(app, "--xtc-probability", o.xtc_probability, 0, 1, ""),
      add_number(app, "--xtc-threshold", o.xtc_threshold, 0, 1, ""),
      app.add_option("--logit-bias", o.logit_bias, "")->check(check_bias)->allow_extra_args(false),
  };
  for (CLI::Option* option : hidden) option->group(kHiddenGroup);
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  app.formatter(std::make_shared<ShortFormatter>(*formatter));
}

}  // namespace

const char* const kMoreSamplingOptions =
    "More on sampling: --typical X --presence-penalty X --frequency-penalty X --penalty-last-n N\n"
    "--dry-multiplier X --dry-base X --dry-allowed-length N --dry-last-n N --xtc-probability X\n"
    "--xtc-threshold X --logit-bias ID:X";

std::function<std::string(const std::string&)> number_in(double low, double high) {
  return [=](const std::string& text) -> std::string {
    const std::optional<double> value = to_number(text);
    // Written so that NaN fails.
    if (value && *value >= low && *value <= high) return "";
    return fmt::format("'{}' is not a number from {} to {}", utf8_printable(text), low, high);
  };
}

std::function<std::string(const std::string&)> integer_in(int64_t low, int64_t high) {
  return [=](const std::string& text) -> std::string {
    const auto value = to_integer<int64_t>(text);
    if (value && *value >= low && *value <= high) return "";
    return fmt::format("'{}' is not a whole number from {} to {}", utf8_printable(text), low, high);
  };
}

void add_sampling_options(CLI::App& app, SamplingOptions& o) {
  add_integer(app, "-n", o.max_tokens, 0, "Tokens to make (default: until the answer ends)");
  add_number(app, "--temp", o.temperature, 0, 100,
             "Temperature; 0: the most likely token (default: the model's, or 0.7)");
  add_integer(app, "--top-k", o.top_k, 0, "Only the N most likely; 0: all (default: the model's, or 40)");
  add_number(app, "--top-p", o.top_p, 0, 1, "Only the most likely of this mass (default: the model's, or 0.9)");
  add_number(app, "--min-p", o.min_p, 0, 1, "Only those this likely relative to the best");
  add_number(app, "--repeat-penalty", o.repetition_penalty, 0.01, 100, "Over 1: against repetition");
  app.add_option("--seed", o.seed, "The same seed gives the same text (default: random)")
      ->check(check_seed)
      ->type_name("N");
  app.add_option("--stop", o.stop, "End the answer before this text; may be given again")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  add_more_options(app, o);
}

SamplingParams sampling_params(const SamplingOptions& o, const SamplingParams& base) {
  SamplingParams p = base;
  const auto set = [](auto& field, const auto& given) {
    if (given) field = *given;
  };
  set(p.temperature, o.temperature);
  set(p.top_k, o.top_k);
  set(p.top_p, o.top_p);
  set(p.min_p, o.min_p);
  set(p.typical_p, o.typical_p);
  set(p.repetition_penalty, o.repetition_penalty);
  set(p.presence_penalty, o.presence_penalty);
  set(p.frequency_penalty, o.frequency_penalty);
  set(p.penalty_last_n, o.penalty_last_n);
  set(p.dry_multiplier, o.dry_multiplier);
  set(p.dry_base, o.dry_base);
  set(p.dry_allowed_length, o.dry_allowed_length);
  set(p.dry_last_n, o.dry_last_n);
  set(p.xtc_probability, o.xtc_probability);
  set(p.xtc_threshold, o.xtc_threshold);
  for (const std::string& text : o.logit_bias) {
    const Bias bias = *to_bias(text);
    p.logit_bias.emplace_back(bias.token, bias.bias);
  }
  if (o.seed) {
    p.seed = *o.seed;
  } else {
    std::random_device random;
    // 53 bits: a seed that is printed survives readers of JSON that hold numbers as doubles.
    p.seed = ((uint64_t{random()} << 32) | random()) >> 11;
  }
  return p;
}

}  // namespace ingot
