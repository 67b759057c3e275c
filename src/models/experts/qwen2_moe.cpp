// Qwen1.5 and Qwen2 with experts: biases on q, k and v, and an MLP that every row meets, times a gate of its own.
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = config.boolean("qkv_bias", "").value_or(true);
  if (!config.boolean("use_sliding_window", "").value_or(false)) hp.sliding.assign(hp.sliding.size(), false);
  read_experts(hp, config);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  x = b.add(x, attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  return b.add(x, moe_or_mlp(b, h, w, hp, i, {.shared = "shared_expert", .shared_gate = "shared_expert_gate"}));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_qwen2_moe = {
    .name = "qwen2_moe",
    .hf_types = {"qwen2_moe"},
    .gguf_types = {"qwen2moe"},
    .names = {.gguf_layer = {{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                             {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                             {"ffn_down_shexp", "mlp.shared_expert.down_proj"}},
              .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
