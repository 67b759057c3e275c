// GLM-4.5 and later: rope over half of each head, RMS norms on q and k in some, a sigmoid router whose bias chooses,
// and an expert that every row meets. Layers behind the last, which predict further tokens, are not read.
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias =
      config.is_gguf() ? config.has_tensor("blk.0.attn_q.bias") : config.boolean("attention_bias", "").value_or(false);
  if (config.is_gguf()) hp.layers -= config.integer("", "nextn_predict_layers", 0, hp.layers - 1, 0);
  hp.experts.router = {.score = RouterScore::kSigmoid, .group_score = GroupScore::kBestTwo, .renormalize = true};
  read_experts(hp, config);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  Qkv a = qkv(b, h, w["self_attn"], hp);
  if (b.weights().has(w["self_attn.q_norm"].weight())) {
    a.q = b.rms_norm(a.q, w["self_attn.q_norm"], hp.eps, 0, hp.head_dim);
    a.k = b.rms_norm(a.k, w["self_attn.k_norm"], hp.eps, 0, hp.head_dim);
  }
  x = b.add(x, attend(b, a, w["self_attn"], hp, i));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  const MoeSpec spec{.choice_bias = "gate.e_score_correction_bias", .shared = "shared_experts"};
  x = b.add(x, moe_or_mlp(b, h, w, hp, i, spec));
  if (i + 1 == hp.layers) ignore_later_layers(b, hp);
  return x;
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_glm4_moe = {
    .name = "glm4_moe",
    .hf_types = {"glm4_moe"},
    .gguf_types = {"glm4moe"},
    .names = {.gguf_layer = {{"post_attention_norm", "post_attention_layernorm"},
                             {"nextn.eh_proj", "eh_proj"},
                             {"nextn.embed_tokens", "embed_tokens"},
                             {"nextn.enorm", "enorm"},
                             {"nextn.hnorm", "hnorm"},
                             {"nextn.shared_head_head", "shared_head.head"},
                             {"nextn.shared_head_norm", "shared_head.norm"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
