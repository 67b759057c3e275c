#include "compress/gguf_numbers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "files/gguf/gguf_writer.h"

namespace ingot {
namespace {

class Keys {
 public:
  Keys(GgufWriter& writer, const std::string& arch) : writer_(writer), prefix_(arch + ".") {}
  void u32(const char* name, int value) { writer_.set(prefix_ + name, static_cast<uint32_t>(value)); }
  void f32(const char* name, double value) { writer_.set(prefix_ + name, static_cast<float>(value)); }
  void text(const char* name, const char* value) { writer_.set(prefix_ + name, value); }
  void flag(const char* name, bool value) { writer_.set(prefix_ + name, value); }

 private:
  GgufWriter& writer_;
  const std::string prefix_;
};

double longrope_factor(const RopeSpec& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  const double stretched = static_cast<double>(rope.max_context) / rope.original_context;
  return stretched <= 1 ? 1 : std::sqrt(1 + std::log(stretched) / std::log(rope.original_context));
}

void write_rope(Keys& keys, const std::string& arch, const Hparams& hp) {
  const RopeSpec& rope = hp.rope;
  keys.u32("rope.dimension_count", rope.rotary_dim());
  keys.f32("rope.freq_base", rope.theta);
  if (arch == "gemma3" && hp.rope_local.theta != rope.theta) keys.f32("rope.freq_base_swa", hp.rope_local.theta);
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

void write_experts(Keys& keys, const ExpertParams& experts) {
  keys.u32("expert_count", experts.count);
  keys.u32("expert_used_count", experts.used);
  keys.u32("expert_feed_forward_length", experts.ffn);
  if (experts.shared_ffn > 0) keys.u32("expert_shared_feed_forward_length", experts.shared_ffn);
}

void write_peculiar(Keys& keys, const std::string& arch, const Hparams& hp) {
  if (arch == "granite" || arch == "granitemoe") {
    keys.f32("attention.scale", hp.attention_scale);
    keys.f32("embedding_scale", hp.embed_scale);
    keys.f32("residual_scale", hp.residual_scale);
    keys.f32("logit_scale", 1 / static_cast<double>(hp.logit_scale));
  }
  if (hp.attn_softcap > 0) keys.f32("attn_logit_softcapping", hp.attn_softcap);
  if (hp.final_softcap > 0) keys.f32("final_logit_softcapping", hp.final_softcap);
  const bool slides = std::ranges::any_of(hp.sliding, [](bool s) { return s; });
  // A plain Llama that slides is told by nobody: readers would take the key and not use it.
  if (hp.window > 0 && slides && arch != "llama") keys.u32("attention.sliding_window", hp.window);
}

}  // namespace

void write_gguf_numbers(GgufWriter& writer, const std::string& arch, const Hparams& hp) {
  Keys keys(writer, arch);
  keys.u32("context_length", hp.context);
  keys.u32("embedding_length", hp.hidden);
  keys.u32("block_count", hp.layers);
  keys.u32("feed_forward_length", hp.ffn);
  keys.u32("attention.head_count", hp.heads);
  keys.u32("attention.head_count_kv", hp.kv_heads);
  keys.u32("attention.key_length", hp.head_dim);
  keys.u32("attention.value_length", hp.value_dim());
  keys.f32(arch == "gpt2" ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", hp.eps);
  keys.u32("vocab_size", hp.vocab);
  if (arch != "gpt2") write_rope(keys, arch, hp);
  if (hp.experts.count > 0) write_experts(keys, hp.experts);
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

namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b)); }

bool same_rope(const RopeSpec& a, const RopeSpec& b, int context) {
  const RopeFrequencies fa = rope_frequencies(a, context), fb = rope_frequencies(b, context);
  return a.interleaved == b.interleaved && near(fa.magnitude, fb.magnitude) &&
         std::ranges::equal(fa.inv_freq, fb.inv_freq, near);
}

bool same_router(const RouterSpec& a, const RouterSpec& b) {
  return a.score == b.score && a.renormalize == b.renormalize && near(a.scale, b.scale) && a.groups == b.groups &&
         a.groups_used == b.groups_used;
}

}  // namespace

void check_same_numbers(const Hparams& given, const Hparams& read, bool windows) {
  const auto check = [](bool same, const char* what) {
    if (!same) throw Error("[quantize] a GGUF file of this architecture cannot say {}", what);
  };
  check(given.layers == read.layers && given.hidden == read.hidden && given.ffn == read.ffn &&
            given.vocab == read.vocab && given.context == read.context,
        "the model's sizes");
  check(given.heads == read.heads && given.kv_heads == read.kv_heads && given.head_dim == read.head_dim &&
            given.value_dim() == read.value_dim() && given.kv_heads_local == read.kv_heads_local,
        "the sizes of its heads");
  check(near(given.eps, read.eps), "the norm's epsilon");
  check(given.activation == read.activation, "the activation");
  check(given.tied == read.tied, "whether the head is the embedding");
  check(given.qkv_bias == read.qkv_bias && given.o_bias == read.o_bias && given.mlp_bias == read.mlp_bias &&
            given.head_bias == read.head_bias,
        "which linears have a bias");
  check(near(given.attention_scale, read.attention_scale), "the scale of attention");
  check(near(given.embed_scale, read.embed_scale) && near(given.residual_scale, read.residual_scale) &&
            near(given.logit_scale, read.logit_scale),
        "the scales of embedding, residual and logits");
  check(near(given.attn_softcap, read.attn_softcap) && near(given.final_softcap, read.final_softcap), "the soft caps");
  check(given.uses_rope == read.uses_rope, "which layers have rope");
  const bool any_rope = std::ranges::any_of(given.uses_rope, [](bool r) { return r; });
  check(!any_rope || same_rope(given.rope, read.rope, given.context), "the rope");
  if (windows) {
    check(given.sliding == read.sliding, "which layers see a window");
    const bool slides = std::ranges::any_of(given.sliding, [](bool s) { return s; });
    check(!slides || (given.window == read.window && given.chunked == read.chunked), "the window");
    check(!slides || !any_rope || same_rope(given.rope_local, read.rope_local, given.context),
          "the rope of the layers that see a window");
  }
  check(given.experts.count == read.experts.count && given.experts.used == read.experts.used &&
            given.experts.layers == read.experts.layers,
        "the number of experts");
  if (given.experts.count == 0) return;
  check(given.experts.ffn == read.experts.ffn && given.experts.shared_ffn == read.experts.shared_ffn,
        "the width of experts");
  check(same_router(given.experts.router, read.experts.router), "how experts are chosen");
}

}  // namespace ingot
