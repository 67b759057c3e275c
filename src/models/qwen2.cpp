// Qwen2 and Qwen2.5: Llama with biases on q, k and v. Layers from max_window_layers on may see a sliding window.
#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = true;
  if (!config.boolean("use_sliding_window", "").value_or(false)) {
    hp.sliding.assign(hp.sliding.size(), false);
  } else if (config.strings("layer_types").empty()) {
    const int first = config.integer("max_window_layers", "", 0, 4096, hp.layers);
    for (int i = first; i < hp.layers; ++i) hp.sliding[static_cast<size_t>(i)] = hp.window > 0;
  }
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, llama_layer); }

}  // namespace

extern const Architecture arch_qwen2 = {
    .name = "qwen2",
    .hf_types = {"qwen2"},
    .gguf_types = {"qwen2"},
    .names = {.ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
