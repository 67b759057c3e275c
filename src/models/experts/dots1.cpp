// dots.llm1: RMS norms on each q and k head before rope, a sigmoid router whose bias chooses, shared experts.
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.experts.router = {
      .score = RouterScore::kSigmoid, .group_score = GroupScore::kBestTwo, .renormalize = config.is_gguf()};
  read_experts(hp, config);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  Qkv a = qkv(b, h, w["self_attn"], hp);
  a.q = b.rms_norm(a.q, w["self_attn.q_norm"], hp.eps, 0, hp.head_dim);
  a.k = b.rms_norm(a.k, w["self_attn.k_norm"], hp.eps, 0, hp.head_dim);
  x = b.add(x, attend(b, a, w["self_attn"], hp, i));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  const MoeSpec spec{.choice_bias = "gate.e_score_correction_bias", .shared = "shared_experts"};
  return b.add(x, moe_or_mlp(b, h, w, hp, i, spec));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_dots1 = {
    .name = "dots1",
    .hf_types = {"dots1"},
    .gguf_types = {"dots1"},
    .names = {},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
