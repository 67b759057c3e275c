// Qwen3 with experts: an RMS norm on each q and k head before rope, 8 of 128 experts for each row.
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  if (!config.boolean("use_sliding_window", "").value_or(false)) hp.sliding.assign(hp.sliding.size(), false);
  hp.experts.router.renormalize = config.is_gguf();  // a config says so
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
  return b.add(x, moe_or_mlp(b, h, w, hp, i, {}));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_qwen3_moe = {
    .name = "qwen3_moe",
    .hf_types = {"qwen3_moe"},
    .gguf_types = {"qwen3moe"},
    .names = {.ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
