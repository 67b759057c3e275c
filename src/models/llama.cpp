// Llama and its many relatives: RMS norm, rotary attention with grouped heads, SwiGLU.
#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  if (config.is_gguf()) {
    hp.qkv_bias = config.has_tensor("blk.0.attn_q.bias");
    hp.o_bias = config.has_tensor("blk.0.attn_output.bias");
    hp.mlp_bias = config.has_tensor("blk.0.ffn_down.bias");
    // GGUF files of Mixtral call themselves llama.
    hp.experts.router.renormalize = true;
    if (config.number("", "expert_count").value_or(0) > 0) read_experts(hp, config);
    return;
  }
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.mlp_bias = config.boolean("mlp_bias", "").value_or(false);
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, llama_layer); }

}  // namespace

extern const Architecture arch_llama = {
    .name = "llama",
    .hf_types = {"llama"},
    .gguf_types = {"llama"},
    .names = {.gguf_permuted_qk = true, .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
