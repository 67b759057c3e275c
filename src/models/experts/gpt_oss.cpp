// gpt-oss: biases everywhere, a sink for each head, layers that see a window and layers that see all in turn, and
// experts with a clamped SwiGLU whose rows of gate and up are published in turn, in MXFP4.
#include "base/error.h"
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = true;
  if (config.number("swiglu_limit", "").value_or(kClampedSwigluLimit) != kClampedSwigluLimit)
    throw Error("[config] a swiglu_limit other than {} is not supported", kClampedSwigluLimit);
  hp.experts.router.renormalize = true;
  read_experts(hp, config);
  // GGUF says neither which layers see a window nor that YaRN's borders are not rounded.
  if (!config.is_gguf()) return;
  for (int i = 0; i < hp.layers; ++i) hp.sliding[static_cast<size_t>(i)] = i % 2 == 0 && hp.window > 0;
  hp.rope.truncate = hp.rope_local.truncate = false;
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i), attn = w["self_attn"];
  const std::string own = attn["sinks"].path(), in_gguf = attn["sinks"].weight();
  const Weight sinks = b.weights().vector(b.weights().has(own) ? own : in_gguf, hp.heads);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  x = b.add(x, attend(b, qkv(b, h, attn, hp), attn, hp, i, {.sinks = sinks}));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  const MoeSpec spec{.router = "router",
                     .router_bias = true,
                     .expert_bias = true,
                     .form = {.transposed = true, .interleaved = true},
                     .activation = ActivationKind::kClampedSwiglu};
  return b.add(x, moe(b, h, w["mlp"], hp, spec));
}

void build(Build& b, const Hparams& hp) { decoder(b, hp, layer); }

}  // namespace

extern const Architecture arch_gpt_oss = {
    .name = "gpt_oss",
    .hf_types = {"gpt_oss"},
    .gguf_types = {"gpt-oss"},
    .names = {.gguf_layer = {{"post_attention_norm", "post_attention_layernorm"}, {"ffn_gate_inp", "mlp.router"}}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
