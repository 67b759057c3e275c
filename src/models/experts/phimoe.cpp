// Phi-3.5-MoE: layer norms, biases on attention and head, and a router that weighs each of its two experts among those
// near it (sparsemixer).
#include "base/error.h"
#include "models/blocks.h"
#include "models/experts.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  const auto biased = [&](const char* key, const char* in_gguf) {
    return config.is_gguf() ? config.has_tensor(in_gguf) : config.boolean(key, "").value_or(false);
  };
  hp.qkv_bias = hp.o_bias = biased("attention_bias", "blk.0.attn_q.bias");
  hp.head_bias = biased("lm_head_bias", "output.bias");
  hp.sliding.assign(hp.sliding.size(), hp.window > 0);
  hp.experts.router = {.score = RouterScore::kSparsemixer,
                       .jitter = static_cast<float>(config.number("router_jitter_noise", "").value_or(0.01))};
  read_experts(hp, config);
  // Its own magnitude of cos and sin, in place of the one that longrope has by its factor.
  const JsonObject* scaling = find_object(config.json(), "rope_scaling");
  const double near = scaling ? get_float(*scaling, "short_mscale", 0.0) : 0.0;
  const double far = scaling ? get_float(*scaling, "long_mscale", near) : near;
  if (near != far) throw Error("[config] short_mscale {} and long_mscale {} differ, which is not supported", near, far);
  if (near > 0) hp.rope.attention_factor = hp.rope_local.attention_factor = near;
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = b.layer_norm(x, w["input_layernorm"], hp.eps);
  x = b.add(x, attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i));
  h = b.layer_norm(x, w["post_attention_layernorm"], hp.eps);
  return b.add(x, moe(b, h, w["block_sparse_moe"], hp, {}));
}

void build(Build& b, const Hparams& hp) {
  decoder(b, hp, layer, [](Build& builder, const Tensor& rows, const Hparams& h) {
    return builder.layer_norm(rows, Names("model.norm"), h.eps);
  });
}

}  // namespace

extern const Architecture arch_phimoe = {
    .name = "phimoe",
    .hf_types = {"phimoe"},
    .gguf_types = {"phimoe"},
    .names = {.gguf_layer = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                             {"ffn_gate_exps", "block_sparse_moe.experts.gate_proj"},
                             {"ffn_up_exps", "block_sparse_moe.experts.up_proj"},
                             {"ffn_down_exps", "block_sparse_moe.experts.down_proj"}},
              .ignorable = {"*rotary_emb.inv_freq"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
