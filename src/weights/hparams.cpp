#include "weights/hparams.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "weights/config.h"
#include "weights/schemes/scheme.h"

namespace ingot {
namespace {

RopeKind rope_kind(const std::string& name) {
  if (name == "default" || name == "none" || name.empty()) return RopeKind::kDefault;
  if (name == "linear") return RopeKind::kLinear;
  if (name == "dynamic") return RopeKind::kDynamic;
  if (name == "yarn") return RopeKind::kYarn;
  if (name == "llama3") return RopeKind::kLlama3;
  if (name == "longrope" || name == "su") return RopeKind::kLongrope;
  throw Error("[config] rope type '{}' is not supported", name);
}

std::vector<float> floats(const JsonObject& object, const char* key) {
  std::vector<float> result;
  if (const JsonArray* array = find_array(object, key)) {
    for (const Json& v : *array) result.push_back(static_cast<float>(as_float(v, key)));
  }
  return result;
}

// Nothing where the key is absent or null.
std::optional<double> optional_float(const JsonObject& object, const char* key) {
  const Json* value = find(object, key);
  if (!value || value->is_null()) return {};
  return as_float(*value, key);
}

// Reads one object of rope parameters: rope_parameters, one of its parts, or the older rope_scaling.
void read_rope_object(RopeSpec& spec, const JsonObject& object) {
  spec.theta = get_float(object, "rope_theta", spec.theta);
  spec.partial = get_float(object, "partial_rotary_factor", spec.partial);
  spec.kind = rope_kind(get_string(object, "rope_type", get_string(object, "type", "default")));
  spec.factor = get_float(object, "factor", 1.0);
  spec.original_context =
      static_cast<int>(get_int(object, "original_max_position_embeddings", spec.original_context, 0, int64_t{1} << 30));
  spec.beta_fast = get_float(object, "beta_fast", 32.0);
  spec.beta_slow = get_float(object, "beta_slow", 1.0);
  spec.attention_factor = optional_float(object, "attention_factor");
  spec.mscale = optional_float(object, "mscale");
  spec.mscale_all_dim = optional_float(object, "mscale_all_dim");
  spec.truncate = get_bool(object, "truncate", true);
  spec.score_beta = get_float(object, "llama_4_scaling_beta", 0.0);
  spec.low_freq_factor = get_float(object, "low_freq_factor", 1.0);
  spec.high_freq_factor = get_float(object, "high_freq_factor", 4.0);
  spec.short_factor = floats(object, "short_factor");
  spec.long_factor = floats(object, "long_factor");
}

void read_rope_json(Hparams& hp, const JsonObject& json) {
  hp.rope.theta = get_float(json, "rope_theta", 10000.0);
  hp.rope.partial = get_float(json, "partial_rotary_factor", 1.0);
  hp.rope.original_context =
      static_cast<int>(get_int(json, "original_max_position_embeddings", 0, 0, int64_t{1} << 30));
  hp.rope_local = hp.rope;
  hp.rope_local.theta = get_float(json, "rope_local_base_freq", hp.rope.theta);
  const JsonObject* object = find_object(json, "rope_parameters");
  if (!object) object = find_object(json, "rope_scaling");
  if (!object) return;
  const JsonObject* full = find(*object, "full_attention") ? find_object(*object, "full_attention") : nullptr;
  const JsonObject* local = find(*object, "sliding_attention") ? find_object(*object, "sliding_attention") : nullptr;
  read_rope_object(hp.rope, full ? *full : *object);
  if (local) {
    read_rope_object(hp.rope_local, *local);
  } else if (!find(json, "rope_local_base_freq")) {
    hp.rope_local = hp.rope;
  }
}

std::vector<float> tensor_floats(const Gguf& gguf, const char* name) {
  std::vector<float> result;
  const GgufTensor* tensor = gguf.find_tensor(name);
  if (!tensor) return result;
  if (tensor->type != 0) throw Error("[gguf] tensor '{}' must be F32", name);
  result.resize(tensor->bytes / sizeof(float));
  std::memcpy(result.data(), tensor->data, result.size() * sizeof(float));
  return result;
}

void read_rope_gguf(Hparams& hp, const Config& config) {
  RopeSpec& spec = hp.rope;
  spec.theta = config.number("", "rope.freq_base").value_or(10000.0);
  spec.kind = rope_kind(config.string("", "rope.scaling.type").value_or("none"));
  spec.factor = config.number("", "rope.scaling.factor").value_or(1.0);
  spec.original_context = config.integer("", "rope.scaling.original_context_length", 0, 1 << 30, 0);
  if (const auto attn = config.number("", "rope.scaling.attn_factor")) {
    // GGUF multiplies yarn's own factor by it; a config replaces yarn's by it.
    const bool scaled = spec.kind == RopeKind::kYarn && spec.factor > 1;
    spec.attention_factor = *attn * (scaled ? 0.1 * std::log(spec.factor) + 1 : 1);
  }
  const int rotary = config.integer("", "rope.dimension_count", 0, 1 << 16, hp.head_dim);
  spec.partial = static_cast<double>(rotary) / hp.head_dim;
  spec.freq_factors = tensor_floats(config.gguf(), "rope_freqs.weight");
  spec.short_factor = tensor_floats(config.gguf(), "rope_factors_short.weight");
  spec.long_factor = tensor_floats(config.gguf(), "rope_factors_long.weight");
  if (!spec.long_factor.empty()) spec.kind = RopeKind::kLongrope;
  hp.rope_local = spec;
}

void check_rope(const RopeSpec& spec) {
  // Before it is made an integer: what does not fit into one is undefined.
  if (!(spec.partial >= 0 && spec.partial <= 1024)) throw Error("[config] rope rotates a share of {}", spec.partial);
  const size_t pairs = static_cast<size_t>(spec.rotary_dim()) / 2;
  if (!(spec.theta > 0) || !std::isfinite(spec.theta))
    throw Error("[config] rope theta {} is not positive", spec.theta);
  if (!(spec.factor > 0)) throw Error("[config] rope factor {} is not positive", spec.factor);
  if (spec.rotary_dim() < 2 || spec.rotary_dim() % 2 || spec.rotary_dim() > spec.head_dim) {
    throw Error("[config] rope rotates {} of {} dimensions", spec.rotary_dim(), spec.head_dim);
  }
  for (const auto* factors : {&spec.short_factor, &spec.long_factor, &spec.freq_factors}) {
    if (!factors->empty() && factors->size() != pairs) {
      throw Error("[config] rope has {} factors for {} frequencies", factors->size(), pairs);
    }
  }
}

void read_rope(Hparams& hp, const Config& config) {
  if (config.is_gguf()) {
    read_rope_gguf(hp, config);
  } else {
    read_rope_json(hp, config.json());
  }
  for (RopeSpec* spec : {&hp.rope, &hp.rope_local}) {
    spec->head_dim = hp.head_dim;
    spec->max_context = hp.context;
    check_rope(*spec);
  }
}

std::string activation(const std::string& name) {
  if (name == "silu" || name == "swish") return "silu";
  if (name == "gelu") return "gelu";
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_tanh" || name == "gelu_fast")
    return "gelu_tanh";
  throw Error("[config] activation '{}' is not supported", name);
}

// The layers that see only a window: named one by one in newer configs, by architecture in older ones.
void read_windows(Hparams& hp, const Config& config) {
  hp.window = config.integer("sliding_window", "attention.sliding_window", 0, 1 << 30, 0);
  hp.sliding.assign(static_cast<size_t>(hp.layers), false);
  hp.uses_rope.assign(static_cast<size_t>(hp.layers), true);
  const std::vector<std::string> types = config.strings("layer_types");
  if (types.empty() || hp.window == 0) return;
  if (types.size() != hp.sliding.size()) {
    throw Error("[config] layer_types has {} entries for {} layers", types.size(), hp.layers);
  }
  for (size_t i = 0; i < types.size(); ++i) hp.sliding[i] = types[i] == "sliding_attention";
}

// GGUF may have a number for each layer: the first one's, where the architecture's own file reads the others.
int kv_head_count(const Config& config, int heads) {
  constexpr const char* kKey = "attention.head_count_kv";
  const GgufValue* value = config.is_gguf() ? config.gguf().find(config.type() + "." + kKey) : nullptr;
  if (value == nullptr || !value->is_array()) return config.integer("num_key_value_heads", kKey, 1, 1 << 14, heads);
  const std::vector<double> all = config.numbers("", kKey);
  const bool alike = std::ranges::all_of(all, [&](double n) { return n == all[0]; });
  if (all.empty() || (!alike && config.type() != "mimo2"))
    throw Error("[config] '{}' differs from layer to layer, which is not supported", kKey);
  if (!(all[0] >= 1 && all[0] <= 1 << 14)) throw Error("[config] '{}' is {}", kKey, all[0]);
  return static_cast<int>(all[0]);
}

int vocab_size(const Config& config) {
  if (!config.is_gguf()) return config.integer("vocab_size", "", 1, 1 << 24);
  const GgufTensor* table = config.gguf().find_tensor("token_embd.weight");
  if (!table || table->dims.size() != 2) throw Error("[gguf] there is no matrix 'token_embd.weight'");
  if (table->dims[1] > 1 << 24) throw Error("[gguf] 'token_embd.weight' has {} rows", table->dims[1]);
  return static_cast<int>(table->dims[1]);
}

// Weights packed by other tools would be refused one by one, with names that say little: their method is named first.
void check_quantization(const Config& config) {
  if (config.is_gguf()) return;
  const JsonObject* quantization = find_object(config.json(), "quantization_config");
  const std::string method = quantization ? get_string(*quantization, "quant_method", "") : "";
  if (!method.empty() && !scheme_method_known(method))
    throw Error("[config] quantization by '{}' is not supported", method);
}

}  // namespace

Hparams read_hparams(const Config& config) {
  check_quantization(config);
  Hparams hp;
  hp.arch = config.type();
  hp.layers = config.integer("num_hidden_layers", "block_count", 1, 4096);
  hp.hidden = config.integer("hidden_size", "embedding_length", 1, 1 << 20);
  hp.heads = config.integer("num_attention_heads", "attention.head_count", 1, 1 << 14);
  hp.kv_heads = kv_head_count(config, hp.heads);
  // Where heads have a rotary part of their own, its size is what rope is about.
  const int usual = config.integer("qk_rope_head_dim", "", 1, 1 << 14, std::max(1, hp.hidden / hp.heads));
  hp.head_dim = config.integer("head_dim", "attention.key_length", 1, 1 << 14, usual);
  hp.ffn = config.integer("intermediate_size", "feed_forward_length", 1, 1 << 22);
  hp.context = config.integer("max_position_embeddings", "context_length", 1, 1 << 30);
  hp.vocab = vocab_size(config);
  hp.eps = static_cast<float>(config.number("rms_norm_eps", "attention.layer_norm_rms_epsilon").value_or(1e-5));
  if (hp.heads % hp.kv_heads) throw Error("[config] {} heads are no multiple of {} KV heads", hp.heads, hp.kv_heads);
  if (!(hp.eps >= 0) || !std::isfinite(hp.eps)) throw Error("[config] the norm's epsilon is {}", hp.eps);
  const auto act = config.string("hidden_act", "");
  hp.activation = activation(act ? *act : config.string("hidden_activation", "").value_or("silu"));
  hp.attention_scale = 1.0f / std::sqrt(static_cast<float>(hp.head_dim));
  hp.tied = config.is_gguf() ? !config.has_tensor("output.weight")
                             : config.boolean("tie_word_embeddings", "").value_or(!config.has_tensor("lm_head.weight"));
  read_windows(hp, config);
  read_rope(hp, config);
  return hp;
}

}  // namespace ingot
