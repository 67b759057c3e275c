// Granite with experts: Granite's multipliers, gate and up of all experts in one matrix, weights by a softmax over the
// chosen alone, and in some an MLP that every row meets. Granite 4 with attention alone, with or without experts, too.
#include "base/error.h"
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

// Granite 4's layers are of two kinds.
void read_hybrid(Hparams& hp, const Config& config) {
  for (const std::string& type : config.strings("layer_types")) {
    if (type != "attention" && type != "full_attention")
      throw Error("[config] layers of the kind '{}', which carry a state, are not supported", type);
  }
  const bool rope = config.string("position_embedding_type", "").value_or("") == "rope";
  hp.uses_rope.assign(hp.uses_rope.size(), rope);
}

void configure(Hparams& hp, const Config& config) {
  read_granite_multipliers(hp, config);
  const bool hybrid = config.type() == "granitemoehybrid";
  if (hybrid) read_hybrid(hp, config);
  if (hybrid && config.number("num_local_experts", "").value_or(0) == 0) {
    hp.experts.shared_ffn = config.integer("shared_intermediate_size", "", 1, 1 << 22, hp.ffn);
    return;
  }
  hp.experts.router.renormalize = true;
  read_experts(hp, config);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  h = attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i);
  x = b.add(x, b.scale(h, hp.residual_scale));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  Tensor sum;
  if (hp.experts.in_layer(i)) sum = moe(b, h, w["block_sparse_moe"], hp, {.router = "router.layer", .experts = ""});
  if (hp.experts.shared_ffn > 0) {
    Hparams own = hp;
    own.ffn = hp.experts.shared_ffn;
    const Tensor shared = gated_mlp(b, h, w["shared_mlp"], own);
    sum = sum ? b.add(sum, shared) : shared;
  }
  return b.add(x, b.scale(sum, hp.residual_scale));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_granitemoe = {
    .name = "granitemoe",
    .hf_types = {"granitemoe", "granitemoeshared", "granitemoehybrid"},
    .gguf_types = {"granitemoe"},
    .names = {.gguf_layer = {{"ffn_gate_inp", "block_sparse_moe.router.layer"},
                             {"ffn_gate_exps", "block_sparse_moe.gate_proj"},
                             {"ffn_up_exps", "block_sparse_moe.up_proj"},
                             {"ffn_down_exps", "block_sparse_moe.down_proj"},
                             {"ffn_gate_shexp", "shared_mlp.gate_proj"},
                             {"ffn_up_shexp", "shared_mlp.up_proj"},
                             {"ffn_down_shexp", "shared_mlp.down_proj"}},
              .gguf_permuted_qk = true,
              .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
