// Mistral: Llama whose layers may all see a sliding window. (GGUF files of Mistral call themselves llama.)
#include "models/blocks.h"
#include "models/model.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config&) { hp.sliding.assign(hp.sliding.size(), hp.window > 0); }

void build(Build& b, const Hparams& hp) { decoder(b, hp, llama_layer); }

}  // namespace

extern const Architecture arch_mistral = {
    .name = "mistral",
    .hf_types = {"mistral"},
    .gguf_types = {},
    .names = {.gguf_permuted_qk = true, .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
