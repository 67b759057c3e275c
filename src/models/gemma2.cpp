// Gemma 2: norms before and after attention and MLP, GeGLU, soft caps, a scaled embedding, every other layer sliding.
#include <cmath>

#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.activation = "gelu_tanh";
  hp.norm_offset = config.is_gguf() ? 0.0f : 1.0f;  // GGUF files have the 1 added already
  hp.embed_scale = std::sqrt(static_cast<float>(hp.hidden));
  hp.attn_softcap = static_cast<float>(config.number("attn_logit_softcapping", "attn_logit_softcapping").value_or(0));
  hp.final_softcap =
      static_cast<float>(config.number("final_logit_softcapping", "final_logit_softcapping").value_or(0));
  // Only the 27B of 46 layers scales by the hidden width; GGUF does not store the number.
  const double scalar = hp.layers == 46 ? static_cast<double>(hp.hidden) / hp.heads : hp.head_dim;
  hp.attention_scale = static_cast<float>(1 / std::sqrt(config.number("query_pre_attn_scalar", "").value_or(scalar)));
  if (config.strings("layer_types").empty()) {
    for (size_t i = 0; i < hp.sliding.size(); ++i) hp.sliding[i] = i % 2 == 0 && hp.window > 0;
  }
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  h = attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i);
  x = b.add(x, norm(b, h, w["post_attention_layernorm"], hp));
  h = norm(b, x, w["pre_feedforward_layernorm"], hp);
  h = gated_mlp(b, h, w["mlp"], hp);
  return b.add(x, norm(b, h, w["post_feedforward_layernorm"], hp));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_gemma2 = {
    .name = "gemma2",
    .hf_types = {"gemma2"},
    .gguf_types = {"gemma2"},
    .names = {.gguf_layer = {{"ffn_norm", "pre_feedforward_layernorm"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
