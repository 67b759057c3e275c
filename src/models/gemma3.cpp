// Gemma 3, the text part: Gemma 2 with norms on each q and k head instead of soft caps, five sliding layers to each
// full one, and a rope of its own for the sliding ones.
#include <cmath>

#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void read_gguf(Hparams& hp, const Config& config) {
  hp.rope_local.theta = config.number("", "rope.freq_base_swa").value_or(10000.0);
  hp.rope_local.kind = RopeKind::kDefault;
  hp.rope_local.factor = 1;
}

void configure(Hparams& hp, const Config& config) {
  hp.activation = "gelu_tanh";
  hp.norm_offset = config.is_gguf() ? 0.0f : 1.0f;  // GGUF files have the 1 added already
  hp.embed_scale = std::sqrt(static_cast<float>(hp.hidden));
  hp.final_softcap =
      static_cast<float>(config.number("final_logit_softcapping", "final_logit_softcapping").value_or(0));
  // Only the 27B of 62 layers scales by the hidden width; GGUF does not store the number.
  const double scalar = hp.layers == 62 ? static_cast<double>(hp.hidden) / hp.heads : hp.head_dim;
  hp.attention_scale = static_cast<float>(1 / std::sqrt(config.number("query_pre_attn_scalar", "").value_or(scalar)));
  if (config.is_gguf()) read_gguf(hp, config);
  if (config.strings("layer_types").empty()) {
    const int period = config.integer("sliding_window_pattern", "", 1, 4096, 6);
    for (int i = 0; i < hp.layers; ++i) hp.sliding[static_cast<size_t>(i)] = (i + 1) % period != 0 && hp.window > 0;
  }
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  Qkv a = qkv(b, h, w["self_attn"], hp);
  a.q = b.rms_norm(a.q, w["self_attn.q_norm"], hp.eps, hp.norm_offset, hp.head_dim);
  a.k = b.rms_norm(a.k, w["self_attn.k_norm"], hp.eps, hp.norm_offset, hp.head_dim);
  h = attend(b, a, w["self_attn"], hp, i);
  x = b.add(x, norm(b, h, w["post_attention_layernorm"], hp));
  h = norm(b, x, w["pre_feedforward_layernorm"], hp);
  h = gated_mlp(b, h, w["mlp"], hp);
  return b.add(x, norm(b, h, w["post_feedforward_layernorm"], hp));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_gemma3 = {
    .name = "gemma3",
    .hf_types = {"gemma3_text", "gemma3"},
    .gguf_types = {"gemma3"},
    .names = {.gguf_layer = {{"ffn_norm", "pre_feedforward_layernorm"}},
              .ignorable = {"*vision_tower.*", "*multi_modal_projector.*"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
