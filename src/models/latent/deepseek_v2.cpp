// DeepSeek V2: latent attention, a softmax router that may be held to some groups of experts, and shared experts. GGUF
// has one name for it and for V3; what differs is read from the file.
#include "base/error.h"
#include "models/latent_blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  configure_latent(hp, config);
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.mlp_bias = config.boolean("mlp_bias", "").value_or(false);
  read_experts(hp, config);
  RouterSpec& router = hp.experts.router;
  const std::string method = config.string("topk_method", "").value_or(router.groups > 1 ? "group_limited_greedy" : "");
  if (method == "greedy") router.groups = router.groups_used = 1;
  if (router.score == RouterScore::kSigmoid) router.group_score = GroupScore::kBestTwo;
  check_experts(hp.experts);
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, deepseek_layer); }

}  // namespace

extern const Architecture arch_deepseek_v2 = {
    .name = "deepseek_v2",
    .hf_types = {"deepseek_v2"},
    .gguf_types = {"deepseek2"},
    .names = {.gguf_layer = latent_gguf_names(), .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
