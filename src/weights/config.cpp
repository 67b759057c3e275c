#include "weights/config.h"

#include <cmath>

#include "base/error.h"

namespace ingot {
namespace {

// The names that the oldest architectures still publish for what all others call by the second name.
void add_newer_names(JsonObject& json) {
  constexpr const char* kNames[][2] = {{"n_embd", "hidden_size"},         {"n_layer", "num_hidden_layers"},
                                       {"n_head", "num_attention_heads"}, {"n_positions", "max_position_embeddings"},
                                       {"n_inner", "intermediate_size"},  {"activation_function", "hidden_act"}};
  for (const auto& [older, newer] : kNames) {
    const Json* value = find(json, older);
    if (value && !value->is_null() && !find(json, newer)) json[newer] = Json(*value);
  }
  // There, no inner width means four times the hidden one.
  if (find(json, "n_embd") && !find(json, "intermediate_size")) {
    json["intermediate_size"] = 4 * get_int(json, "n_embd", 0, 0, 1 << 20);
  }
}

}  // namespace

Config::Config(const ModelFiles& files) : gguf_(files.gguf.get()), safetensors_(files.safetensors.get()) {
  if (gguf_) {
    type_ = gguf_->get_string("general.architecture");
    return;
  }
  json_ = files.config;
  if (const JsonObject* text = find_object(files.config, "text_config")) json_ = *text;
  add_newer_names(json_);
  type_ = get_string(json_, "model_type", "");
  if (type_.empty()) throw Error("[config] config.json of '{}' has no model_type", files.path);
}

std::optional<double> Config::number(const char* hf, const char* gguf) const {
  if (gguf_) {
    const std::string key = type_ + "." + gguf;
    if (!*gguf || !gguf_->has(key)) return {};
    return gguf_->get_f32(key);
  }
  const Json* value = *hf ? find(json_, hf) : nullptr;
  if (!value || value->is_null()) return {};
  return as_float(*value, hf);
}

std::optional<bool> Config::boolean(const char* hf, const char* gguf) const {
  if (gguf_) {
    const std::string key = type_ + "." + gguf;
    if (!*gguf || !gguf_->has(key)) return {};
    return gguf_->get_bool(key);
  }
  const Json* value = *hf ? find(json_, hf) : nullptr;
  if (!value || value->is_null()) return {};
  return as_bool(*value, hf);
}

std::optional<std::string> Config::string(const char* hf, const char* gguf) const {
  if (gguf_) {
    const std::string key = type_ + "." + gguf;
    if (!*gguf || !gguf_->has(key)) return {};
    return gguf_->get_string(key);
  }
  const Json* value = *hf ? find(json_, hf) : nullptr;
  if (!value || value->is_null()) return {};
  return std::string(as_string(*value, hf));
}

std::vector<double> Config::numbers(const char* hf, const char* gguf) const {
  std::vector<double> result;
  if (gguf_) {
    const std::string key = type_ + "." + gguf;
    if (!*gguf || !gguf_->has(key)) return result;
    for (const float v : gguf_->get_f32_array(key)) result.push_back(v);
    return result;
  }
  const JsonArray* array = *hf ? find_array(json_, hf) : nullptr;
  if (!array) return result;
  for (const Json& v : *array) result.push_back(as_float(v, hf));
  return result;
}

std::vector<std::string> Config::strings(const char* hf) const {
  std::vector<std::string> result;
  const JsonArray* array = gguf_ ? nullptr : find_array(json_, hf);
  if (!array) return result;
  for (const Json& v : *array) result.emplace_back(as_string(v, hf));
  return result;
}

int Config::integer(const char* hf, const char* gguf, int low, int high, std::optional<int> fallback) const {
  const char* name = gguf_ ? gguf : hf;
  const std::optional<double> value = number(hf, gguf);
  if (!value) {
    if (fallback) return *fallback;
    throw Error("[config] '{}' is missing", name);
  }
  if (*value != std::floor(*value) || *value < low || *value > high) {
    throw Error("[config] '{}' is {}, expected a whole number from {} to {}", name, *value, low, high);
  }
  return static_cast<int>(*value);
}

bool Config::has_tensor(const std::string& stored_name) const {
  return gguf_ ? gguf_->find_tensor(stored_name) != nullptr : safetensors_->find(stored_name) != nullptr;
}

}  // namespace ingot
