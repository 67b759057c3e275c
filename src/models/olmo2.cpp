// OLMo 2: norms after attention and MLP instead of before, and RMS norms over all of q and all of k.
#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Qkv a = qkv(b, x, w["self_attn"], hp);
  a.q = norm(b, a.q, w["self_attn.q_norm"], hp);
  a.k = norm(b, a.k, w["self_attn.k_norm"], hp);
  Tensor h = attend(b, a, w["self_attn"], hp, i);
  x = b.add(x, norm(b, h, w["post_attention_layernorm"], hp));
  h = gated_mlp(b, x, w["mlp"], hp);
  return b.add(x, norm(b, h, w["post_feedforward_layernorm"], hp));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_olmo2 = {
    .name = "olmo2",
    .hf_types = {"olmo2"},
    .gguf_types = {"olmo2"},
    .names = {.gguf_layer = {{"post_attention_norm", "post_attention_layernorm"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
