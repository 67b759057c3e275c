// Phi-3 and Phi-4: Llama with fused qkv and gate_up projections, which blocks.h takes apart.
#include "models/blocks.h"
#include "models/model.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config&) { hp.sliding.assign(hp.sliding.size(), hp.window > 0); }

void build(Build& b, const Hparams& hp) { decoder(b, hp, llama_layer); }

}  // namespace

extern const Architecture arch_phi3 = {
    .name = "phi3",
    .hf_types = {"phi3"},
    .gguf_types = {"phi3"},
    .names = {.gguf_layer = {{"ffn_up", "mlp.gate_up_proj"}}, .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
