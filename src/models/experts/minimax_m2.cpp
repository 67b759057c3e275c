// MiniMax-M2: RMS norms over all of q and all of k, rope over half of each head, a sigmoid router whose bias chooses.
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  if (!config.is_gguf()) {
    const int rotary = config.integer("rotary_dim", "", 2, hp.head_dim, hp.rope.rotary_dim());
    hp.rope.partial = hp.rope_local.partial = static_cast<double>(rotary) / hp.head_dim;
  }
  hp.experts.router = {.score = RouterScore::kSigmoid, .renormalize = true};
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
  return b.add(x, moe(b, h, w["block_sparse_moe"], hp, {.choice_bias = "e_score_correction_bias"}));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_minimax_m2 = {
    .name = "minimax_m2",
    .hf_types = {"minimax_m2"},
    .gguf_types = {"minimax-m2"},
    .names = {.gguf_layer = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                             {"ffn_gate_exps", "block_sparse_moe.experts.gate_proj"},
                             {"ffn_up_exps", "block_sparse_moe.experts.up_proj"},
                             {"ffn_down_exps", "block_sparse_moe.experts.down_proj"},
                             {"exp_probs_b", "block_sparse_moe.expert_bias"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
