// GPT-2: learned positions, layer norms, biases everywhere, GELU, and matrices that are published transposed.
#include "base/error.h"
#include "models/blocks.h"
#include "models/model.h"
#include "weights/config.h"

namespace ingot {
namespace {

void configure(Hparams& hp, const Config& config) {
  if (config.boolean("scale_attn_by_inverse_layer_idx", "").value_or(false)) {
    throw Error("[config] scale_attn_by_inverse_layer_idx is not supported");
  }
  if (!config.boolean("scale_attn_weights", "").value_or(true)) hp.attention_scale = 1;
  hp.eps = static_cast<float>(config.number("layer_norm_epsilon", "attention.layer_norm_epsilon").value_or(1e-5));
  hp.activation = config.is_gguf() ? "gelu_tanh" : hp.activation;
  hp.transposed_linears = !config.is_gguf();
  hp.uses_rope.assign(hp.uses_rope.size(), false);
}

Tensor linear(Build& b, const Tensor& x, const Names& w, const Hparams& hp, int64_t out, Shard shard) {
  return b.linear(x, w, {.out = out, .bias = true, .take = {.shard = shard, .transposed = hp.transposed_linears}});
}

Tensor layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("transformer.h", i);
  Tensor h = b.layer_norm(x, w["ln_1"], hp.eps);
  const Tensor qkv = linear(b, h, w["attn.c_attn"], hp, 3 * int64_t{hp.hidden}, Shard::kCols);
  const AttentionSpec spec{
      .heads = hp.heads, .kv_heads = hp.heads, .k_dim = hp.head_dim, .v_dim = hp.head_dim, .scale = hp.attention_scale};
  h = b.attention(columns(qkv, 0, hp.hidden), columns(qkv, hp.hidden, hp.hidden),
                  columns(qkv, 2 * hp.hidden, hp.hidden), spec, w["attn"]);
  x = b.add(x, linear(b, h, w["attn.c_proj"], hp, hp.hidden, Shard::kRows));
  h = b.layer_norm(x, w["ln_2"], hp.eps);
  h = b.activation(linear(b, h, w["mlp.c_fc"], hp, hp.ffn, Shard::kCols), activation_kind(hp));
  return b.add(x, linear(b, h, w["mlp.c_proj"], hp, hp.hidden, Shard::kRows));
}

void build(Build& b, const Hparams& hp) {
  const Names embedding("transformer.wte");
  Tensor x = b.add(b.embedding(embedding, hp.vocab, hp.hidden),
                   b.embedding(Names("transformer.wpe"), hp.context, hp.hidden, Embedding::By::kPosition));
  b.hidden(0, x);
  for (int i = 0; i < hp.layers; ++i) {
    x = layer(b, x, hp, i);
    if (i + 1 < hp.layers) b.hidden(i + 1, x);
  }
  head(b, x, hp, embedding, [](Build& builder, const Tensor& rows, const Hparams& h) {
    return builder.layer_norm(rows, Names("transformer.ln_f"), h.eps);
  });
}

}  // namespace

extern const Architecture arch_gpt2 = {
    .name = "gpt2",
    .hf_types = {"gpt2"},
    .gguf_types = {"gpt2"},
    .names = {.prefix = "transformer.",
              .gguf_layer = {{"attn_norm", "ln_1"},
                             {"attn_qkv", "attn.c_attn"},
                             {"attn_output", "attn.c_proj"},
                             {"ffn_norm", "ln_2"},
                             {"ffn_up", "mlp.c_fc"},
                             {"ffn_down", "mlp.c_proj"}},
              .gguf_global = {{"token_embd", "transformer.wte"},
                              {"position_embd", "transformer.wpe"},
                              {"output_norm", "transformer.ln_f"}},
              .layers_prefix = "transformer.h.",
              .ignorable = {"*.attn.bias", "*.attn.masked_bias"}},
    .configure = configure,
    .build = build,
};

}  // namespace ingot
