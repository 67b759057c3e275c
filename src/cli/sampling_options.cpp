#include "cli/sampling_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "base/utf8.h"
#include "cli/help_formatter.h"

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

CLI::Option* add_number(CLI::App& app, const SamplingNumber& n, std::optional<double>& value) {
  CLI::Option* option = app.add_option(n.option, value, n.help ? n.help : "");
  if (n.integer) {
    option->check(integer_in(static_cast<int64_t>(n.low), static_cast<int64_t>(n.high)))->type_name("N");
  } else {
    option->check(number_in(n.low, n.high))->type_name("X");
  }
  return option;
}

// Kept out of the list of --help so that it fits a screen; more_sampling_options() names them.
constexpr const char* kHiddenGroup = "More";

class ShortFormatter : public HelpFormatter {
 public:
  explicit ShortFormatter(const CLI::Formatter& other) : HelpFormatter(other) {}
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    return group == kHiddenGroup ? "" : CLI::Formatter::make_group(group, is_positional, options);
  }
};

}  // namespace

std::string more_sampling_options() {
  constexpr size_t kWidth = 110;
  std::string text = "More on sampling:";
  size_t line = 0;  // where it begins
  const auto add = [&](const std::string& option) {
    const bool full = text.size() - line + 1 + option.size() > kWidth;
    if (full) line = text.size() + 1;
    text += (full ? "\n" : " ") + option;
  };
  for (const SamplingNumber& n : kSamplingNumbers) {
    if (n.help == nullptr) add(fmt::format("{} {}", n.option, n.integer ? "N" : "X"));
  }
  add("--logit-bias ID:X");
  return text;
}

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
  app.add_option("-n", o.max_tokens, "Tokens to make (default: until the answer ends)")
      ->check(integer_in(0, 1'000'000'000))
      ->type_name("N");
  for (size_t i = 0; i < kSamplingNumbers.size(); ++i) {
    CLI::Option* option = add_number(app, kSamplingNumbers[i], o.numbers[i]);
    if (kSamplingNumbers[i].help == nullptr) option->group(kHiddenGroup);
  }
  app.add_option("--seed", o.seed, "The same seed gives the same text (default: random)")
      ->check(check_seed)
      ->type_name("N");
  app.add_option("--stop", o.stop, "End the answer before this text; may be given again")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_option("--logit-bias", o.logit_bias, "")->check(check_bias)->allow_extra_args(false)->group(kHiddenGroup);
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  app.formatter(std::make_shared<ShortFormatter>(*formatter));
}

SamplingParams sampling_params(const SamplingOptions& o, const SamplingParams& base) {
  SamplingParams p = base;
  for (size_t i = 0; i < kSamplingNumbers.size(); ++i) {
    if (o.numbers[i]) kSamplingNumbers[i].set(p, *o.numbers[i]);
  }
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

std::string sampling_text(const SamplingParams& params) {
  const SamplingParams none;
  std::string text;
  for (const SamplingNumber& n : kSamplingNumbers) {
    if (n.help == nullptr && n.of(params) == n.of(none)) continue;
    std::string name = n.name;
    std::ranges::replace(name, '_', '-');
    text +=
        n.integer ? fmt::format("{} {}, ", name, params.*n.integer) : fmt::format("{} {}, ", name, params.*n.number);
  }
  return text + fmt::format("seed {}", params.seed);
}

}  // namespace ingot
