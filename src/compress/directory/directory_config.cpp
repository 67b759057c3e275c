#include "compress/directory/directory_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "compress/gguf_numbers.h"

namespace ingot {
namespace {

constexpr std::array<DirectoryTarget, 13> kTargets = {{
    {"llama", "llama", "llama", "LlamaForCausalLM"},
    {"llama", "mixtral", "mixtral", "MixtralForCausalLM", true},
    {"qwen2", "qwen2", "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "qwen3", "qwen3", "Qwen3ForCausalLM"},
    {"qwen3moe", "qwen3_moe", "qwen3_moe", "Qwen3MoeForCausalLM", true},
    {"olmoe", "olmoe", "olmoe", "OlmoeForCausalLM", true},
    {"gemma2", "gemma2", "gemma2", "Gemma2ForCausalLM"},
    {"gemma3", "gemma3", "gemma3_text", "Gemma3ForCausalLM"},
    {"phi3", "phi3", "phi3", "Phi3ForCausalLM"},
    {"olmo2", "olmo2", "olmo2", "Olmo2ForCausalLM"},
    {"granite", "granite", "granite", "GraniteForCausalLM"},
    {"smollm3", "smollm3", "smollm3", "SmolLM3ForCausalLM"},
    {"glm4", "glm4", "glm4", "Glm4ForCausalLM"},
}};

// The shortest number that is the same float: 1e-06 and not 9.99999997e-07.
double shortest(double x) { return std::strtod(fmt::format("{}", static_cast<float>(x)).c_str(), nullptr); }

Json nothing() { return nullptr; }

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b)); }

// GGUF has the factors of llama3's rope and not the numbers that they were made of: those of Llama 3.1 and later but
// for the length of the first training, which is a power of two.
JsonObject llama3_scaling(const RopeSpec& rope) {
  RopeSpec found = rope;
  found.kind = RopeKind::kLlama3;
  found.freq_factors.clear();
  found.low_freq_factor = 1;
  found.high_freq_factor = 4;
  found.factor = *std::ranges::max_element(rope.freq_factors);
  for (found.original_context = 8; found.original_context <= 1 << 20; found.original_context *= 2) {
    if (!std::ranges::equal(rope_factors(found)[0].values, rope.freq_factors, near)) continue;
    return {{"rope_type", "llama3"},
            {"factor", found.factor},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", found.original_context}};
  }
  throw Error("[quantize] 'rope_freqs.weight' has factors that config.json has no words for");
}

JsonArray list_of(const std::vector<float>& values) {
  JsonArray list;
  for (const float v : values) list.push_back(Json(shortest(v)));
  return list;
}

// What transformers takes longrope's magnitude to be.
double usual_magnitude(const RopeSpec& rope) {
  const double stretched = static_cast<double>(rope.max_context) / rope.original_context;
  return stretched <= 1 ? 1 : std::sqrt(1 + std::log(stretched) / std::log(rope.original_context));
}

void add_rope(JsonObject& config, const Hparams& hp) {
  const RopeSpec& rope = hp.rope;
  config["rope_theta"] = shortest(rope.theta);
  const bool plain = std::ranges::all_of(rope.freq_factors, [](float f) { return f == 1; });
  if (rope.kind != RopeKind::kDefault && !plain)
    throw Error("[quantize] config.json has no words for two scalings of rope at once");
  Json scaling = nullptr;
  if (!plain) scaling = llama3_scaling(rope);
  if (rope.kind == RopeKind::kLinear) scaling = JsonObject{{"rope_type", "linear"}, {"factor", shortest(rope.factor)}};
  if (rope.kind == RopeKind::kYarn) {
    JsonObject yarn{{"rope_type", "yarn"}, {"factor", shortest(rope.factor)}};
    if (rope.original_context > 0) yarn["original_max_position_embeddings"] = rope.original_context;
    if (rope.attention_factor) yarn["attention_factor"] = shortest(*rope.attention_factor);
    scaling = yarn;
  }
  if (rope.kind == RopeKind::kLongrope) {
    if (rope.original_context <= 0) throw Error("[quantize] the file does not say where longrope's contexts part");
    if (rope.attention_factor && !near(*rope.attention_factor, usual_magnitude(rope)))
      throw Error("[quantize] rope's attention factor is {}, which config.json cannot say", *rope.attention_factor);
    // Readers of Phi-3 refuse any other key there.
    scaling = JsonObject{
        {"type", "longrope"}, {"short_factor", list_of(rope.short_factor)}, {"long_factor", list_of(rope.long_factor)}};
    config["original_max_position_embeddings"] = rope.original_context;
  }
  config["rope_scaling"] = scaling;
  if (rope.partial != 1) config["partial_rotary_factor"] = rope.partial;
}

void add_windows(JsonObject& config, const Hparams& hp) {
  config["sliding_window"] = hp.window > 0 ? Json(hp.window) : nothing();
  JsonArray types;
  for (const bool slides : hp.sliding) types.push_back(Json(slides ? "sliding_attention" : "full_attention"));
  config["layer_types"] = types;
}

Json cap(float x) { return x > 0 ? Json(shortest(x)) : nothing(); }

void add_gemma(JsonObject& config, const std::string_view arch, const Hparams& hp) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["query_pre_attn_scalar"] = std::lround(1 / (static_cast<double>(hp.attention_scale) * hp.attention_scale));
  config["attn_logit_softcapping"] = cap(hp.attn_softcap);
  config["final_logit_softcapping"] = cap(hp.final_softcap);
  add_windows(config, hp);
  if (arch != "gemma3") return;
  config["rope_local_base_freq"] = shortest(hp.rope_local.theta);
  config["sliding_window_pattern"] = 6;
}

void add_experts(JsonObject& config, const std::string_view arch, const Hparams& hp) {
  config[arch == "mixtral" ? "num_local_experts" : "num_experts"] = hp.experts.count;
  config["num_experts_per_tok"] = hp.experts.used;
  config["output_router_logits"] = false;
  if (arch == "mixtral") return;
  config["norm_topk_prob"] = hp.experts.router.renormalize;
  if (arch == "olmoe") {
    config["clip_qkv"] = nullptr;
    return;
  }
  config["moe_intermediate_size"] = hp.experts.ffn;
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = JsonArray();
}

// What one architecture has beside the common numbers.
void add_peculiar(JsonObject& config, const std::string_view arch, const Hparams& hp) {
  if (arch == "llama" || arch == "granite" || arch == "smollm3") config["mlp_bias"] = hp.mlp_bias;
  if (arch != "qwen2" && arch != "phi3" && arch != "mixtral") config["attention_bias"] = hp.qkv_bias;
  if (arch == "gemma2" || arch == "gemma3") {
    add_gemma(config, arch, hp);
  } else {
    config["hidden_act"] = hp.activation == "gelu_tanh" ? "gelu_pytorch_tanh" : hp.activation;
  }
  if (arch == "phi3" || arch == "mixtral") {
    const bool slides = std::ranges::any_of(hp.sliding, [](bool s) { return s; });
    config["sliding_window"] = slides ? Json(hp.window) : nothing();
  }
  if (arch.starts_with("qwen") || arch == "smollm3") {
    config["use_sliding_window"] = false;
    config["sliding_window"] = nullptr;
    if (arch != "smollm3") config["max_window_layers"] = hp.layers;
  }
  if (arch == "granite") {
    config["embedding_multiplier"] = shortest(hp.embed_scale);
    config["attention_multiplier"] = shortest(hp.attention_scale);
    config["residual_multiplier"] = shortest(hp.residual_scale);
    config["logits_scaling"] = shortest(1 / static_cast<double>(hp.logit_scale));
  }
  if (arch == "smollm3") {
    JsonArray layers;
    for (const bool rope : hp.uses_rope) layers.push_back(Json(rope ? 1 : 0));
    config["no_rope_layers"] = layers;
    config["no_rope_layer_interval"] = 4;
  }
  if (hp.experts.count > 0) add_experts(config, arch, hp);
}

}  // namespace

const DirectoryTarget& directory_target(std::string_view gguf, bool experts) {
  std::string known;
  for (const DirectoryTarget& target : kTargets) {
    if (target.gguf == gguf && target.experts == experts) return target;
    known += (known.empty() ? "" : ", ") + std::string(target.arch);
  }
  throw Error("[quantize] no directory is made of a GGUF file of '{}'; of {} it is", gguf, known);
}

JsonObject directory_config(const DirectoryTarget& target, const Hparams& hp, std::string_view dtype) {
  JsonObject config{{"architectures", JsonArray{Json(target.loader)}},
                    {"model_type", target.type},
                    {"torch_dtype", dtype},
                    {"vocab_size", hp.vocab},
                    {"hidden_size", hp.hidden},
                    {"intermediate_size", hp.ffn},
                    {"num_hidden_layers", hp.layers},
                    {"num_attention_heads", hp.heads},
                    {"num_key_value_heads", hp.kv_heads},
                    {"head_dim", hp.head_dim},
                    {"max_position_embeddings", hp.context},
                    {"rms_norm_eps", shortest(hp.eps)},
                    {"tie_word_embeddings", hp.tied},
                    {"use_cache", true}};
  add_rope(config, hp);
  add_peculiar(config, target.arch, hp);
  return config;
}

}  // namespace ingot
