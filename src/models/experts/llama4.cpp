// Llama 4, the text part: layers that see their own chunk of positions and every fourth that sees all, without rope and
// with queries that grow with the position; q and k normed after rope; weights of experts on their input.
#include <algorithm>

#include "base/error.h"
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

// GGUF files do not say them: they are those of the published models.
constexpr int kChunk = 8192, kFloor = 8192, kPeriod = 4, kExpertsWithoutNorm = 128;
constexpr double kBeta = 0.1;

// Published as a boolean and as a number.
bool flag(const Config& config, const char* key, bool fallback) {
  const Json* value = find(config.json(), key);
  if (value == nullptr || value->is_null()) return fallback;
  return value->is_bool() ? as_bool(*value, key) : as_float(*value, key) != 0;
}

// One entry for each layer, or none.
std::vector<double> of_layers(const Config& config, const char* key, int layers) {
  std::vector<double> values = config.numbers(key, "");
  if (!values.empty() && values.size() != static_cast<size_t>(layers))
    throw Error("[config] {} has {} entries for {} layers", key, values.size(), layers);
  return values;
}

void read_attention(Hparams& hp, const Config& config) {
  const std::vector<double> rope = of_layers(config, "no_rope_layers", hp.layers);
  const int step = config.integer("no_rope_layer_interval", "", 1, 4096, kPeriod);
  for (size_t i = 0; i < hp.uses_rope.size(); ++i)
    hp.uses_rope[i] = rope.empty() ? (i + 1) % static_cast<size_t>(step) != 0 : rope[i] != 0;
  hp.window = config.integer("attention_chunk_size", "", 0, 1 << 30, kChunk);
  // A GGUF file whose window is 0 has rope and no chunks in every layer.
  if (config.is_gguf() && config.number("", "attention.sliding_window").value_or(1) == 0) {
    hp.window = 0;
    hp.uses_rope.assign(hp.uses_rope.size(), true);
  }
  const std::vector<std::string> types = config.strings("layer_types");
  if (!types.empty() && types.size() != static_cast<size_t>(hp.layers))
    throw Error("[config] layer_types has {} entries for {} layers", types.size(), hp.layers);
  for (size_t i = 0; i < hp.sliding.size(); ++i)
    hp.sliding[i] = hp.window > 0 && (types.empty() ? hp.uses_rope[i] : types[i] == "chunked_attention");
  hp.chunked = true;
  if (!config.is_gguf() && !flag(config, "attn_temperature_tuning", true)) return;
  hp.temperature_period = config.integer("floor_scale", "", 1, 1 << 30, kFloor);
  hp.temperature_beta = static_cast<float>(config.number("attn_scale", "").value_or(kBeta));
}

void configure(Hparams& hp, const Config& config) {
  hp.rope.interleaved = hp.rope_local.interleaved = true;
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  read_attention(hp, config);
  hp.experts.router = {.score = RouterScore::kSigmoid};
  read_experts(hp, config);
  ExpertParams& e = hp.experts;
  hp.qk_norm = config.is_gguf() ? e.count != kExpertsWithoutNorm : config.boolean("use_qk_norm", "").value_or(true);
  if (!config.is_gguf()) {
    hp.ffn = config.integer("intermediate_size_mlp", "", 1, 1 << 22, hp.ffn);  // intermediate_size is an expert's
    const int step = config.integer("interleave_moe_layer_step", "", 1, 4096, 1);
    const std::vector<double> named = config.numbers("moe_layers", "");
    for (int i = 0; i < hp.layers; ++i)
      e.layers[static_cast<size_t>(i)] = named.empty() ? (i + 1) % step == 0 : std::ranges::count(named, i) > 0;
  }
  e.shared_ffn = e.ffn;
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i), attn = w["self_attn"], mlp = w["feed_forward"];
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  Qkv a = qkv(b, h, attn, hp);
  const bool rope = hp.uses_rope[static_cast<size_t>(i)];
  if (rope) b.rope(a.q, a.k, hp.rope);
  if (rope && hp.qk_norm) {
    a.q = b.rms_norm(a.q, hp.eps, hp.head_dim, attn["q_norm"].path());
    a.k = b.rms_norm(a.k, hp.eps, hp.head_dim, attn["k_norm"].path());
  }
  if (!rope && hp.temperature_period > 0) b.position_scale(a.q, hp.temperature_period, hp.temperature_beta, 1);
  x = b.add(x, attend(b, a, attn, hp, i, {.rope = false}));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  const MoeSpec spec{.router = "router", .form = {.transposed = true}, .scaled_input = true, .shared = "shared_expert"};
  return b.add(x, hp.experts.in_layer(i) ? moe(b, h, mlp, hp, spec) : gated_mlp(b, h, mlp, hp));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_llama4 = {
    .name = "llama4",
    .hf_types = {"llama4_text", "llama4"},
    .gguf_types = {"llama4"},
    .names = {.gguf_layer = {{"ffn_gate", "feed_forward.gate_proj"},
                             {"ffn_up", "feed_forward.up_proj"},
                             {"ffn_down", "feed_forward.down_proj"},
                             {"ffn_gate_inp", "feed_forward.router"},
                             {"ffn_gate_exps", "feed_forward.experts.gate_proj"},
                             {"ffn_up_exps", "feed_forward.experts.up_proj"},
                             {"ffn_down_exps", "feed_forward.experts.down_proj"},
                             {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
                             {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
                             {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"}},
              .ignorable = {"*rotary_emb.inv_freq", "*vision_model.*", "*multi_modal_projector.*"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
