#include "app/model_sampling.h"

#include <optional>

#include "weights/model_files.h"

namespace ingot {

namespace {

// Numbers of a published configuration that cannot be meant (a negative temperature) are left out: they are hints.
template <class T>
void take_hint(std::optional<double> value, double low, double high, T& field) {
  if (value && *value >= low && *value <= high) field = static_cast<T>(*value);
}

SamplingParams gguf_sampling(const Gguf& gguf, const SamplingParams& base) {
  SamplingParams params = base;
  const auto number = [&](const char* key) -> std::optional<double> {
    return gguf.has(key) ? std::optional<double>(gguf.get_f32(key)) : std::nullopt;
  };
  take_hint(number("general.sampling.temp"), 0, 100, params.temperature);
  take_hint(number("general.sampling.top_k"), 0, 1e6, params.top_k);
  take_hint(number("general.sampling.top_p"), 0, 1, params.top_p);
  take_hint(number("general.sampling.min_p"), 0, 1, params.min_p);
  take_hint(number("general.sampling.penalty_repeat"), 0.01, 100, params.repetition_penalty);
  return params;
}

}  // namespace

SamplingParams model_sampling(const ModelFiles& files) {
  SamplingParams params;
  params.temperature = 0.7f;
  params.top_k = 40;
  params.top_p = 0.9f;
  if (files.is_gguf()) return gguf_sampling(*files.gguf, params);
  const JsonObject& config = files.generation_config;
  const auto number = [&](const char* key) -> std::optional<double> {
    const Json* value = find(config, key);
    return value != nullptr && value->is_number() ? std::optional(value->to_number<double>()) : std::nullopt;
  };
  const bool says = number("temperature") || number("top_p") || number("top_k") || find(config, "do_sample");
  if (says) {
    // What the configuration leaves out has these values in the library that it was written for.
    params.temperature = 1;
    params.top_k = 50;
    params.top_p = 1;
  }
  take_hint(number("temperature"), 0, 100, params.temperature);
  take_hint(number("top_k"), 0, 1e6, params.top_k);
  take_hint(number("top_p"), 0, 1, params.top_p);
  take_hint(number("min_p"), 0, 1, params.min_p);
  take_hint(number("typical_p"), 0, 1, params.typical_p);
  take_hint(number("repetition_penalty"), 0.01, 100, params.repetition_penalty);
  const Json* sample = find(config, "do_sample");
  if (sample != nullptr && sample->is_bool() && !sample->get_bool()) params.temperature = 0;
  return params;
}

}  // namespace ingot
