// Trinity (AFMoE): norms before and after each block, a gate on what attention gives, rope in the layers with a window
// alone, a sigmoid router whose bias chooses.
#include <cmath>

#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  // GGUF files do not say that, and need not say after how many layers with a window one sees all.
  if (config.is_gguf()) {
    const auto period = static_cast<size_t>(config.integer("", "attention.sliding_window_pattern", 1, 4096, 4));
    for (size_t i = 0; i < hp.sliding.size(); ++i) hp.sliding[i] = hp.window > 0 && (i + 1) % period != 0;
  }
  if (config.boolean("mup_enabled", "").value_or(config.is_gguf()))
    hp.embed_scale = std::sqrt(static_cast<float>(hp.hidden));
  for (size_t i = 0; i < hp.sliding.size(); ++i) hp.uses_rope[i] = hp.sliding[i];
  hp.experts.router = {.score = RouterScore::kSigmoid, .renormalize = true};
  hp.experts.router.renormalize = config.boolean("route_norm", "").value_or(true);
  read_experts(hp, config);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i), attn = w["self_attn"];
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  Qkv a = qkv(b, h, attn, hp);
  a.q = b.rms_norm(a.q, w["self_attn.q_norm"], hp.eps, 0, hp.head_dim);
  a.k = b.rms_norm(a.k, w["self_attn.k_norm"], hp.eps, 0, hp.head_dim);
  const Tensor gate =
      b.linear(h, attn["gate_proj"], {.out = int64_t{hp.heads} * hp.head_dim, .take = {.shard = Shard::kCols}});
  h = attend(b, a, attn, hp, i, {.gate = gate});
  x = b.add(x, norm(b, h, w["post_attention_layernorm"], hp));
  h = norm(b, x, w["pre_mlp_layernorm"], hp);
  const MoeSpec spec{.router = "router.gate", .choice_bias = "expert_bias", .shared = "shared_experts"};
  h = moe_or_mlp(b, h, w, hp, i, spec);
  return b.add(x, norm(b, h, w["post_mlp_layernorm"], hp));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_afmoe = {
    .name = "afmoe",
    .hf_types = {"afmoe"},
    .gguf_types = {"afmoe"},
    .names = {.gguf_layer = {{"attn_gate", "self_attn.gate_proj"},
                             {"ffn_norm", "pre_mlp_layernorm"},
                             {"post_ffw_norm", "post_mlp_layernorm"},
                             {"ffn_gate_inp", "mlp.router.gate"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
