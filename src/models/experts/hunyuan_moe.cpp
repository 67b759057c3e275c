// Hunyuan with experts: RMS norms on each q and k head after rope, and an MLP that every row meets.
#include <cmath>

#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.experts.router.renormalize = true;
  read_experts(hp, config);
  hp.experts.shared_ffn = hp.ffn;
  // "dynamic" with an alpha is a base of its own, whatever the context.
  const JsonObject* scaling = find_object(config.json(), "rope_scaling");
  const double alpha = scaling ? get_float(*scaling, "alpha", 0.0) : 0.0;
  if (hp.rope.kind == RopeKind::kDynamic && alpha > 0) {
    hp.rope.kind = RopeKind::kDefault;
    hp.rope.theta *= std::pow(alpha, static_cast<double>(hp.head_dim) / (hp.head_dim - 2));
    hp.rope_local = hp.rope;
  }
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i), attn = w["self_attn"];
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  Qkv a = qkv(b, h, attn, hp);
  b.rope(a.q, a.k, hp.rope);
  a.q = b.rms_norm(a.q, attn["query_layernorm"], hp.eps, 0, hp.head_dim);
  a.k = b.rms_norm(a.k, attn["key_layernorm"], hp.eps, 0, hp.head_dim);
  x = b.add(x, attend(b, a, attn, hp, i, {.rope = false}));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  return b.add(x, moe(b, h, w["mlp"], hp, {.router = "gate.wg", .shared = "shared_mlp"}));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_hunyuan_moe = {
    .name = "hunyuan_moe",
    .hf_types = {"hunyuan_v1_moe"},
    .gguf_types = {"hunyuan-moe"},
    .names = {.gguf_layer = {{"attn_q_norm", "self_attn.query_layernorm"},
                             {"attn_k_norm", "self_attn.key_layernorm"},
                             {"ffn_gate_inp", "mlp.gate.wg"},
                             {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
                             {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
                             {"ffn_down_shexp", "mlp.shared_mlp.down_proj"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
