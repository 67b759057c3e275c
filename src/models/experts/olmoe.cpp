// OLMoE: RMS norms over all of q and all of k, 8 of 64 experts whose weights are not divided by their sum.
#include "base/error.h"
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  if (config.number("clip_qkv", "attention.clamp_kqv").value_or(0) > 0)
    throw Error("[config] clip_qkv is not supported");
  read_experts(hp, config);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  Qkv a = qkv(b, h, w["self_attn"], hp);
  a.q = norm(b, a.q, w["self_attn.q_norm"], hp);
  a.k = norm(b, a.k, w["self_attn.k_norm"], hp);
  x = b.add(x, attend(b, a, w["self_attn"], hp, i));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  return b.add(x, moe_or_mlp(b, h, w, hp, i, {}));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_olmoe = {
    .name = "olmoe",
    .hf_types = {"olmoe"},
    .gguf_types = {"olmoe"},
    .names = {.ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
