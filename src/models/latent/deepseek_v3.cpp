// DeepSeek V3 and R1: latent attention, a sigmoid router held to the best groups of experts whose bias chooses but does
// not weigh, and a shared expert. Layers behind the last, which predict further tokens, are not read.
#include "models/latent_blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  configure_latent(hp, config);
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.experts.router = {.score = RouterScore::kSigmoid, .group_score = GroupScore::kBestTwo, .renormalize = true};
  read_experts(hp, config);
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, deepseek_layer); }

}  // namespace

extern const Architecture arch_deepseek_v3 = {
    .name = "deepseek_v3",
    .hf_types = {"deepseek_v3", "kimi_k2"},
    .gguf_types = {},
    .names = {.gguf_layer = latent_gguf_names(), .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
