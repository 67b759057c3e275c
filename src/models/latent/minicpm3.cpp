// MiniCPM3: latent attention and gated MLPs, with Granite's kind of multipliers: on the embedding, on each residual
// branch by the model's depth, and on the logits by its width.
#include <cmath>

#include "models/latent_blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  configure_latent(hp, config);
  hp.rope.interleaved = hp.rope_local.interleaved = false;
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.mlp_bias = config.boolean("mlp_bias", "").value_or(false);
  // GGUF files of it need not say: they are those of the one published model.
  hp.embed_scale = static_cast<float>(config.number("scale_emb", "embedding_scale").value_or(12));
  const double depth = config.number("scale_depth", "").value_or(1.4);
  hp.residual_scale = static_cast<float>(depth / std::sqrt(hp.layers));
  const double width = hp.hidden / config.number("dim_model_base", "").value_or(256);
  hp.logit_scale = static_cast<float>(1 / config.number("", "logit_scale").value_or(width));
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = latent_attend(b, norm(b, x, w["input_layernorm"], hp), w["self_attn"], hp, i);
  x = b.add(x, b.scale(h, hp.residual_scale));
  h = gated_mlp(b, norm(b, x, w["post_attention_layernorm"], hp), w["mlp"], hp);
  return b.add(x, b.scale(h, hp.residual_scale));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_minicpm3 = {
    .name = "minicpm3",
    .hf_types = {"minicpm3"},
    .gguf_types = {"minicpm3"},
    .names = {.gguf_layer = latent_gguf_names(), .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
