#include "compress/gguf_numbers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "compress/gguf_experts.h"
#include "compress/gguf_keys.h"

namespace ingot {
namespace {

double longrope_factor(const RopeSpec& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  const double stretched = static_cast<double>(rope.max_context) / rope.original_context;
  return stretched <= 1 ? 1 : std::sqrt(1 + std::log(stretched) / std::log(rope.original_context));
}

void write_rope(GgufKeys& keys, const std::string& arch, const Hparams& hp) {
  const RopeSpec& rope = hp.rope;
  keys.u32("rope.dimension_count", rope.rotary_dim());
  keys.f32("rope.freq_base", rope.theta);
  if ((arch == "gemma3" || arch == "mimo2") && hp.rope_local.theta != rope.theta)
    keys.f32("rope.freq_base_swa", hp.rope_local.theta);
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kLlama3:  // a tensor of factors
      return;
    case RopeKind::kLinear:
      keys.text("rope.scaling.type", "linear");
      keys.f32("rope.scaling.factor", rope.factor);
      return;
    case RopeKind::kYarn:
      keys.text("rope.scaling.type", "yarn");
      keys.f32("rope.scaling.factor", rope.factor);
      keys.u32("rope.scaling.original_context_length", rope.original_context);
      keys.f32("rope.scaling.yarn_beta_fast", rope.beta_fast);
      keys.f32("rope.scaling.yarn_beta_slow", rope.beta_slow);
      // A tenth of it: so llama.cpp's converter writes it for DeepSeek.
      if (hp.latent && rope.mscale_all_dim.value_or(0) != 0)
        keys.f32("rope.scaling.yarn_log_multiplier", 0.1 * *rope.mscale_all_dim);
      return;
    case RopeKind::kLongrope:
      keys.text("rope.scaling.type", "longrope");
      keys.u32("rope.scaling.original_context_length", rope.original_context);
      keys.f32("rope.scaling.attn_factor", longrope_factor(rope));
      return;
    case RopeKind::kDynamic:
      throw Error("[quantize] GGUF has no rope that grows with the context ('dynamic')");
  }
}

void write_peculiar(GgufKeys& keys, const std::string& arch, const Hparams& hp) {
  if (arch == "granite" || arch == "granitemoe") {
    keys.f32("attention.scale", hp.attention_scale);
    keys.f32("embedding_scale", hp.embed_scale);
    keys.f32("residual_scale", hp.residual_scale);
    keys.f32("logit_scale", 1 / static_cast<double>(hp.logit_scale));
  }
  if (hp.attn_softcap > 0) keys.f32("attn_logit_softcapping", hp.attn_softcap);
  if (hp.final_softcap > 0) keys.f32("final_logit_softcapping", hp.final_softcap);
  const bool slides = std::ranges::any_of(hp.sliding, [](bool s) { return s; });
  // A plain Llama that slides is told by nobody: readers would take the key and not use it. Llama 4's chunks are fixed:
  // a file says only that there are none.
  if (arch == "llama4" && !slides) keys.u32("attention.sliding_window", 0);
  if (hp.window > 0 && slides && arch != "llama" && arch != "llama4") keys.u32("attention.sliding_window", hp.window);
  if (hp.value_scale != 1) keys.f32("attention.value_scale", hp.value_scale);
}

// The absorbed form has one head of keys, the latent and the rotary part, whose values are the latent.
void write_latent(GgufKeys& keys, const std::string& arch, const Hparams& hp) {
  const LatentSpec& l = hp.latent;
  const bool absorbed = arch == "deepseek2";
  if (l.q_rank > 0) keys.u32("attention.q_lora_rank", l.q_rank);
  keys.u32("attention.kv_lora_rank", l.kv_rank);
  keys.u32("attention.head_count_kv", absorbed ? 1 : hp.heads);
  keys.u32("attention.key_length", absorbed ? l.kv_rank + l.rope_dim : l.head_dim());
  keys.u32("attention.value_length", absorbed ? l.kv_rank : l.v_dim);
  if (!absorbed) return;
  keys.u32("attention.key_length_mla", l.head_dim());
  keys.u32("attention.value_length_mla", l.v_dim);
}

void write_heads(GgufKeys& keys, const std::string& arch, const Hparams& hp) {
  keys.u32("attention.head_count", hp.heads);
  if (hp.latent) return write_latent(keys, arch, hp);
  keys.u32("attention.key_length", hp.head_dim);
  keys.u32("attention.value_length", hp.value_dim());
  if (arch != "mimo2") return keys.u32("attention.head_count_kv", hp.kv_heads);
  std::vector<uint32_t> kv_heads, windows;
  for (int i = 0; i < hp.layers; ++i) {
    kv_heads.push_back(static_cast<uint32_t>(hp.kv_heads_of(i)));
    windows.push_back(hp.window_of(i) > 0 ? 1 : 0);
  }
  keys.list("attention.head_count_kv", kv_heads);
  keys.list("attention.sliding_window_pattern", windows);
}

}  // namespace

void write_gguf_numbers(GgufWriter& writer, const std::string& arch, const Hparams& hp) {
  GgufKeys keys(writer, arch);
  keys.u32("context_length", hp.context);
  keys.u32("embedding_length", hp.hidden);
  keys.u32("block_count", hp.layers);
  keys.u32("feed_forward_length", hp.ffn);
  write_heads(keys, arch, hp);
  keys.f32(arch == "gpt2" ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", hp.eps);
  keys.u32("vocab_size", hp.vocab);
  if (arch != "gpt2") write_rope(keys, arch, hp);
  if (hp.experts.count > 0) write_gguf_experts(keys, arch, hp);
  write_peculiar(keys, arch, hp);
}

std::vector<RopeFactors> rope_factors(const RopeSpec& rope) {
  if (rope.kind == RopeKind::kLongrope)
    return {{"rope_factors_long.weight", rope.long_factor}, {"rope_factors_short.weight", rope.short_factor}};
  if (rope.kind != RopeKind::kLlama3) return {};
  const int dim = rope.rotary_dim(), original = rope.original_context > 0 ? rope.original_context : rope.max_context;
  const double longest = original / rope.low_freq_factor, shortest = original / rope.high_freq_factor;
  std::vector<float> values;
  for (int i = 0; i < dim; i += 2) {
    const double wave = 2 * std::numbers::pi * std::pow(rope.theta, static_cast<double>(i) / dim);
    const double smooth = (original / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    const double between = 1 / ((1 - smooth) / rope.factor + smooth);
    values.push_back(static_cast<float>(wave < shortest ? 1 : wave > longest ? rope.factor : between));
  }
  return {{"rope_freqs.weight", values}};
}

}  // namespace ingot
