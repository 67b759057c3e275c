#include "app/model_sampling.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "weights/model_files.h"

namespace ingot {

namespace {

// What the model's files say of a number. One that cannot be meant (a negative temperature) is left out: they are
// hints.
std::optional<double> hint_of(const ModelFiles& files, const SamplingNumber& n) {
  std::optional<double> value;
  if (!files.is_gguf()) {
    const Json* found = n.hint ? find(files.generation_config, n.name) : nullptr;
    if (found != nullptr && found->is_number()) value = found->to_number<double>();
  } else if (n.gguf != nullptr) {
    const std::string key = fmt::format("general.sampling.{}", n.gguf);
    if (files.gguf->has(key)) value = files.gguf->get_f32(key);
  }
  return value && n.in_range(*value) ? value : std::nullopt;
}

}  // namespace

SamplingParams model_sampling(const ModelFiles& files) {
  SamplingParams params;
  params.temperature = 0.7f;
  params.top_k = 40;
  params.top_p = 0.9f;
  const JsonObject& config = files.generation_config;
  const auto is_number = [&](const char* key) {
    const Json* value = find(config, key);
    return value != nullptr && value->is_number();
  };
  const Json* sample = find(config, "do_sample");
  if (sample != nullptr || is_number("temperature") || is_number("top_p") || is_number("top_k")) {
    // What the configuration leaves out has these values in the library that it was written for.
    params.temperature = 1;
    params.top_k = 50;
    params.top_p = 1;
  }
  for (const SamplingNumber& n : kSamplingNumbers) {
    if (const std::optional<double> value = hint_of(files, n)) n.set(params, *value);
  }
  if (sample != nullptr && sample->is_bool() && !sample->get_bool()) params.temperature = 0;
  return params;
}

}  // namespace ingot
