// MiMo-V2-Flash: layers that see a window, with sinks and more KV heads, beside layers that see all, each kind with a
// rope of its own over a third of each head; values of another size than keys, and scaled; a sigmoid router whose bias
// chooses. Layers that predict further tokens are not read.
#include "base/error.h"
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

// [layers] 1 for a layer that sees a window, in older configs and in GGUF.
void read_pattern(Hparams& hp, const Config& config) {
  const std::vector<double> pattern = config.numbers("hybrid_layer_pattern", "attention.sliding_window_pattern");
  if (pattern.empty()) return;
  if (pattern.size() < static_cast<size_t>(hp.layers))
    throw Error("[config] the pattern of windows has {} entries for {} layers", pattern.size(), hp.layers);
  for (size_t i = 0; i < hp.sliding.size(); ++i) hp.sliding[i] = pattern[i] != 0 && hp.window > 0;
}

// GGUF has one number for each layer.
void read_kv_heads(Hparams& hp, const Config& config) {
  hp.kv_heads_local = config.integer("swa_num_key_value_heads", "", 1, 1 << 14, 2 * hp.kv_heads);
  if (config.is_gguf()) {
    const std::vector<double> all = config.numbers("", "attention.head_count_kv");
    for (size_t i = 0; i < hp.sliding.size() && i < all.size(); ++i) {
      if (!(all[i] >= 1 && all[i] <= hp.heads)) throw Error("[config] layer {} has {} KV heads", i, all[i]);
      (hp.sliding[i] ? hp.kv_heads_local : hp.kv_heads) = static_cast<int>(all[i]);
    }
  }
  for (const int kv_heads : {hp.kv_heads, hp.kv_heads_local}) {
    if (kv_heads < 1 || hp.heads % kv_heads)
      throw Error("[config] {} heads are no multiple of {} KV heads", hp.heads, kv_heads);
  }
}

void configure(Hparams& hp, const Config& config) {
  const int later = config.integer("", "nextn_predict_layers", 0, hp.layers - 1, 0);
  hp.layers -= later;
  hp.sliding.resize(static_cast<size_t>(hp.layers));
  hp.uses_rope.resize(static_cast<size_t>(hp.layers));
  read_pattern(hp, config);
  read_kv_heads(hp, config);
  hp.qkv_bias = config.boolean("attention_bias", "").value_or(false);
  hp.v_dim = config.integer("v_head_dim", "attention.value_length", 1, 1 << 14, hp.head_dim);
  hp.value_scale = static_cast<float>(config.number("attention_value_scale", "attention.value_scale").value_or(1));
  hp.eps = static_cast<float>(config.number("layernorm_epsilon", "").value_or(hp.eps));
  hp.rope_local.theta = config.number("swa_rope_theta", "rope.freq_base_swa").value_or(hp.rope_local.theta);
  hp.experts.router = {.score = RouterScore::kSigmoid, .group_score = GroupScore::kBestTwo, .renormalize = true};
  read_experts(hp, config);
}

Qkv own_qkv(Build& b, const Tensor& x, const Names& w, const Hparams& hp, int i) {
  const auto part = [&](const char* name, int64_t rows) {
    return b.linear(x, w[name], {.out = rows, .bias = hp.qkv_bias, .take = {.shard = Shard::kCols}});
  };
  const int64_t kv_heads = hp.kv_heads_of(i);
  Qkv a;
  a.q = part("q_proj", int64_t{hp.heads} * hp.head_dim);
  a.k = part("k_proj", kv_heads * hp.head_dim);
  a.v = b.scale(part("v_proj", kv_heads * hp.value_dim()), hp.value_scale);
  return a;
}

Weight own_sinks(Build& b, const Names& w, const Hparams& hp) {
  for (const std::string& name : {w["attention_sink_bias"].path(), w["sinks"].weight()}) {
    if (b.weights().has(name)) return b.weights().vector(name, hp.heads);
  }
  return {};
}

Tensor own_attention(Build& b, const Tensor& x, const Names& w, const Hparams& hp, int i) {
  const Qkv a = own_qkv(b, x, w, hp, i);
  b.rope(a.q, a.k, hp.rope_of(i));
  const AttentionSpec spec{.heads = hp.heads,
                           .kv_heads = hp.kv_heads_of(i),
                           .k_dim = hp.head_dim,
                           .v_dim = hp.value_dim(),
                           .window = hp.window_of(i),
                           .scale = hp.attention_scale,
                           .sinks = own_sinks(b, w, hp)};
  const Tensor out = b.attention(a.q, a.k, a.v, spec, w);
  return b.linear(out, w["o_proj"], {.out = hp.hidden, .take = {.shard = Shard::kRows}});
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  x = b.add(x, own_attention(b, norm(b, x, w["input_layernorm"], hp), w["self_attn"], hp, i));
  const Tensor h = norm(b, x, w["post_attention_layernorm"], hp);
  x = b.add(x, moe_or_mlp(b, h, w, hp, i, {.choice_bias = "gate.e_score_correction_bias"}));
  if (i + 1 == hp.layers) ignore_later_layers(b, hp);
  return x;
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_mimo_v2_flash = {
    .name = "mimo_v2_flash",
    .hf_types = {"mimo_v2_flash"},
    .gguf_types = {"mimo2"},
    .names = {.gguf_layer = {{"nextn.eh_proj", "eh_proj"},
                             {"nextn.embed_tokens", "embed_tokens"},
                             {"nextn.enorm", "enorm"},
                             {"nextn.hnorm", "hnorm"},
                             {"nextn.shared_head_head", "shared_head.head"},
                             {"nextn.shared_head_norm", "shared_head.norm"},
                             {"layer_output_norm", "final_layernorm"}},
              .ignorable = {"*rotary_emb.inv_freq", "model.mtp.*"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
