// SmolLM3: Llama in which every fourth layer has no rope.
#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.mlp_bias = config.boolean("mlp_bias", "").value_or(false);
  if (!config.boolean("use_sliding_window", "").value_or(false)) hp.sliding.assign(hp.sliding.size(), false);
  const std::vector<double> rope_layers = config.numbers("no_rope_layers", "");  // 1: the layer has rope
  const int interval = config.integer("no_rope_layer_interval", "", 1, 4096, 4);
  for (size_t i = 0; i < hp.uses_rope.size(); ++i) {
    hp.uses_rope[i] = i < rope_layers.size() ? rope_layers[i] != 0 : (i + 1) % static_cast<size_t>(interval) != 0;
  }
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, llama_layer); }

}  // namespace

extern const Architecture arch_smollm3 = {
    .name = "smollm3",
    .hf_types = {"smollm3"},
    .gguf_types = {"smollm3"},
    .names = {.gguf_permuted_qk = true},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
