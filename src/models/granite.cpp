// Granite: Llama with four multipliers: on the embedding, the attention scores, each residual branch and the logits.
#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  read_granite_multipliers(hp, config);
  hp.mlp_bias = config.boolean("mlp_bias", "").value_or(false);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  h = attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i);
  x = b.add(x, b.scale(h, hp.residual_scale));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  h = gated_mlp(b, h, w["mlp"], hp);
  return b.add(x, b.scale(h, hp.residual_scale));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_granite = {
    .name = "granite",
    .hf_types = {"granite"},
    .gguf_types = {"granite"},
    .names = {.gguf_permuted_qk = true},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
