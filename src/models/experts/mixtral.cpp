// Mixtral: Mistral with experts in place of the MLP, two of eight for each row. (GGUF files call themselves llama.)
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.sliding.assign(hp.sliding.size(), hp.window > 0);
  hp.experts.router.renormalize = true;
  read_experts(hp, config);
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  x = b.add(x, attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  return b.add(x, moe(b, h, w["block_sparse_moe"], hp, {}));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_mixtral = {
    .name = "mixtral",
    .hf_types = {"mixtral"},
    .gguf_types = {},
    .names = {.gguf_layer = {{"ffn_gate_inp", "block_sparse_moe.gate"}},
              .gguf_permuted_qk = true,
              .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
