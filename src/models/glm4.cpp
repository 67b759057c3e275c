// GLM-4 (0414): interleaved rope over half of each head, biases on q, k and v, and a second norm after each block.
#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.rope.interleaved = hp.rope_local.interleaved = true;
  hp.qkv_bias =
      config.is_gguf() ? config.has_tensor("blk.0.attn_q.bias") : config.boolean("attention_bias", "").value_or(false);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  h = attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i);
  x = b.add(x, norm(b, h, w["post_self_attn_layernorm"], hp));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  h = gated_mlp(b, h, w["mlp"], hp);
  return b.add(x, norm(b, h, w["post_mlp_layernorm"], hp));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_glm4 = {
    .name = "glm4",
    .hf_types = {"glm4"},
    .gguf_types = {"glm4"},
    .names = {.gguf_layer = {{"post_attention_norm", "post_self_attn_layernorm"},
                             {"post_ffw_norm", "post_mlp_layernorm"},
                             {"ffn_up", "mlp.gate_up_proj"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
