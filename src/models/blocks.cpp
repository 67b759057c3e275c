#include "models/blocks.h"

#include "models/experts.h"
#include "weights/config.h"

namespace ingot {

Qkv qkv(Build& b, const Tensor& x, const Names& w, const Hparams& hp) {
  const int64_t q_rows = static_cast<int64_t>(hp.heads) * hp.head_dim;
  const int64_t kv_rows = static_cast<int64_t>(hp.kv_heads) * hp.head_dim;
  const bool fused = b.weights().has(w["qkv_proj"].weight());
  const int64_t all = fused ? q_rows + 2 * kv_rows : 0;
  const auto part = [&](const char* name, int64_t rows, int64_t begin, int heads) {
    const TakeOptions take{.shard = Shard::kCols, .row_begin = fused ? begin : 0, .stored_rows = all, .heads = heads};
    return b.linear(x, w[fused ? "qkv_proj" : name], {.out = rows, .bias = hp.qkv_bias, .take = take});
  };
  Qkv result;
  result.q = part("q_proj", q_rows, 0, hp.heads);
  result.k = part("k_proj", kv_rows, q_rows, hp.kv_heads);
  result.v = part("v_proj", kv_rows, q_rows + kv_rows, 0);
  return result;
}

Tensor attend(Build& b, const Qkv& a, const Names& w, const Hparams& hp, int i, const AttendOptions& options) {
  if (options.rope && hp.uses_rope[static_cast<size_t>(i)]) b.rope(a.q, a.k, hp.rope_of(i));
  const AttentionSpec spec{.heads = hp.heads,
                           .kv_heads = hp.kv_heads,
                           .k_dim = hp.head_dim,
                           .v_dim = hp.head_dim,
                           .window = hp.window_of(i),
                           .chunked = hp.chunked && hp.window_of(i) > 0,
                           .scale = hp.attention_scale,
                           .softcap = hp.attn_softcap,
                           .sinks = options.sinks};
  Tensor out = b.attention(a.q, a.k, a.v, spec, w);
  if (options.gate) out = b.glu(options.gate, out, ActivationKind::kSigmoid);
  return b.linear(out, w["o_proj"], {.out = hp.hidden, .bias = hp.o_bias, .take = {.shard = Shard::kRows}});
}

Tensor gated_mlp(Build& b, const Tensor& x, const Names& w, const Hparams& hp) {
  const bool linears = b.weights().has(w["input_linear"].weight());
  const bool fused = linears || b.weights().has(w["gate_up_proj"].weight());
  const char* joined = linears ? "input_linear" : "gate_up_proj";
  const auto part = [&](const char* name, int64_t begin) {
    const TakeOptions take{
        .shard = Shard::kCols, .row_begin = fused ? begin : 0, .stored_rows = fused ? 2 * int64_t{hp.ffn} : 0};
    return b.linear(x, w[fused ? joined : name], {.out = hp.ffn, .bias = hp.mlp_bias, .take = take});
  };
  const Tensor gate = part("gate_proj", 0);
  const Tensor up = part("up_proj", hp.ffn);
  const Tensor middle = b.glu(gate, up, activation_kind(hp));
  return b.linear(middle, w[linears ? "output_linear" : "down_proj"],
                  {.out = hp.hidden, .bias = hp.mlp_bias, .take = {.shard = Shard::kRows}});
}

Tensor norm(Build& b, const Tensor& x, const Names& w, const Hparams& hp) {
  return b.rms_norm(x, w, hp.eps, hp.norm_offset);
}

Tensor llama_layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  Tensor h = norm(b, x, w["input_layernorm"], hp);
  x = b.add(x, attend(b, qkv(b, h, w["self_attn"], hp), w["self_attn"], hp, i));
  h = norm(b, x, w["post_attention_layernorm"], hp);
  return b.add(x, moe_or_mlp(b, h, w, hp, i, {}));
}

void decoder(Build& b, const Hparams& hp, Tensor (*layer)(Build& b, Tensor x, const Hparams& hp, int i),
             Tensor (*final_norm)(Build& b, const Tensor& x, const Hparams& hp)) {
  const Names embedding("model.embed_tokens");
  Tensor x = b.scale(b.embedding(embedding, hp.vocab, hp.hidden), hp.embed_scale);
  b.hidden(0, x);
  for (int i = 0; i < hp.layers; ++i) {
    x = layer(b, x, hp, i);
    if (i + 1 < hp.layers) b.hidden(i + 1, x);
  }
  const auto usual = [](Build& builder, const Tensor& rows, const Hparams& h) {
    return norm(builder, rows, Names("model.norm"), h);
  };
  head(b, x, hp, embedding, final_norm != nullptr ? final_norm : +usual);
}

void head(Build& b, Tensor x, const Hparams& hp, const Names& embedding,
          Tensor (*final_norm)(Build& b, const Tensor& x, const Hparams& hp)) {
  // The norm works row by row: all rows when the last hidden state is wanted, the logit rows alone otherwise.
  if (b.options().keep_hidden || b.options().keep_last) {
    x = final_norm(b, x, hp);
    b.hidden(hp.layers, x);
    b.output(kLastHidden, x);
    x = b.gather_logit_rows(x);
  } else {
    x = final_norm(b, b.gather_logit_rows(x), hp);
  }
  const TakeOptions take{.shard = Shard::kVocab};
  if (hp.tied) b.weights().ignore("lm_head.weight");
  const std::string name = hp.tied ? embedding.weight() : "lm_head.weight";
  const Weight bias = hp.head_bias ? b.weights().vector("lm_head.bias", hp.vocab, 0, take) : Weight{};
  x = b.linear(x, b.weights().take(name, hp.vocab, hp.hidden, take), "lm_head", bias);
  x = b.softcap(b.scale(x, hp.logit_scale), hp.final_softcap);
  b.output("logits", x);
}

void read_granite_multipliers(Hparams& hp, const Config& config) {
  hp.qkv_bias = hp.o_bias = config.boolean("attention_bias", "").value_or(false);
  hp.embed_scale = static_cast<float>(config.number("embedding_multiplier", "embedding_scale").value_or(1));
  hp.residual_scale = static_cast<float>(config.number("residual_multiplier", "residual_scale").value_or(1));
  // Left out, it is 1 in a config, and the usual scale in GGUF.
  const double usual = config.is_gguf() ? hp.attention_scale : 1;
  hp.attention_scale = static_cast<float>(config.number("attention_multiplier", "attention.scale").value_or(usual));
  hp.logit_scale = static_cast<float>(1 / config.number("logits_scaling", "logit_scale").value_or(1));
}

ActivationKind activation_kind(const Hparams& hp) {
  if (hp.activation == "gelu") return ActivationKind::kGelu;
  if (hp.activation == "gelu_tanh") return ActivationKind::kGeluTanh;
  return ActivationKind::kSilu;
}

}  // namespace ingot
