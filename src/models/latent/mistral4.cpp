// Mistral 4: DeepSeek's layers with a softmax router, and queries that grow with the position.
#include "models/latent_blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  configure_latent(hp, config);
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.experts.router = {.renormalize = true};
  read_experts(hp, config);
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, deepseek_layer); }

}  // namespace

extern const Architecture arch_mistral4 = {
    .name = "mistral4",
    .hf_types = {"mistral4"},
    .gguf_types = {},
    .names = {.ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
