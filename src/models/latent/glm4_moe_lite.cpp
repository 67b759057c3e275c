// GLM-4.7-Flash: DeepSeek V3's layers, of which the config names the dense ones one by one.
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

extern const Architecture arch_glm4_moe_lite = {
    .name = "glm4_moe_lite",
    .hf_types = {"glm4_moe_lite"},
    .gguf_types = {},
    .names = {.ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
