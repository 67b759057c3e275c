// ERNIE 4.5 with experts: interleaved rope; the bias is added to probabilities, and chooses only.
#include "base/error.h"
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.rope.interleaved = hp.rope_local.interleaved = true;
  const bool bias = config.boolean("use_bias", "").value_or(false);
  hp.qkv_bias = hp.o_bias = hp.mlp_bias = bias;
  if (bias) throw Error("[config] experts with biases are not supported in this architecture");
  hp.experts.router.renormalize = true;
  hp.experts.router.least_sum = static_cast<float>(config.number("moe_norm_min", "").value_or(1e-12));
  read_experts(hp, config);
  if (config.is_gguf()) return;
  const int first = config.integer("moe_layer_start_index", "", 0, hp.layers, 1);
  const int last = config.integer("moe_layer_end_index", "", -1, hp.layers, hp.layers - 1);
  const int step = config.integer("moe_layer_interval", "", 1, 4096, 1);
  for (int i = 0; i < hp.layers; ++i)
    hp.experts.layers[static_cast<size_t>(i)] = (i + 1) % step == 0 && i >= first && (last < 0 || i <= last);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  x = b.add(x, attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  const MoeSpec spec{.choice_bias = "moe_statics.e_score_correction_bias", .shared = "shared_experts"};
  return b.add(x, moe_or_mlp(b, h, w, hp, i, spec));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_ernie4_5_moe = {
    .name = "ernie4_5_moe",
    .hf_types = {"ernie4_5_moe"},
    .gguf_types = {"ernie4_5-moe"},
    .names = {.ignorable = {"model.mtp_*"}},  // heads that guess further tokens
    .configure = configure,
    .build = build,
};

}  // namespace ingot
