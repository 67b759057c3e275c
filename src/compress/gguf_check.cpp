#include "compress/gguf_check.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ingot {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b)); }

bool same_rope(const RopeSpec& a, const RopeSpec& b, int context) {
  const RopeFrequencies fa = rope_frequencies(a, context), fb = rope_frequencies(b, context);
  return a.interleaved == b.interleaved && near(fa.magnitude, fb.magnitude) && near(a.score_beta, b.score_beta) &&
         std::ranges::equal(fa.inv_freq, fb.inv_freq, near);
}

bool same_router(const RouterSpec& a, const RouterSpec& b) {
  return a.score == b.score && a.renormalize == b.renormalize && near(a.scale, b.scale) && a.groups == b.groups &&
         a.groups_used == b.groups_used && (a.groups == 1 || a.group_score == b.group_score) &&
         near(a.least_sum, b.least_sum) && near(a.jitter, b.jitter);
}

// Where attention is latent, GGUF's sizes of heads are those of its latent.
bool same_heads(const Hparams& a, const Hparams& b) {
  const LatentSpec &la = a.latent, &lb = b.latent;
  if (a.latent || b.latent) {
    return a.heads == b.heads && la.q_rank == lb.q_rank && la.kv_rank == lb.kv_rank && la.nope_dim == lb.nope_dim &&
           la.rope_dim == lb.rope_dim && la.v_dim == lb.v_dim;
  }
  return a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim && a.value_dim() == b.value_dim() &&
         a.kv_heads_local == b.kv_heads_local;
}

}  // namespace

void check_same_numbers(const Hparams& given, const Hparams& read, bool windows, const char* file) {
  const auto check = [&](bool same, const char* what) {
    if (!same) throw Error("[quantize] {} of this architecture cannot say {}", file, what);
  };
  check(given.layers == read.layers && given.hidden == read.hidden && given.ffn == read.ffn &&
            given.vocab == read.vocab && given.context == read.context,
        "the model's sizes");
  check(same_heads(given, read), "the sizes of its heads");
  check(near(given.eps, read.eps), "the norm's epsilon");
  check(given.activation == read.activation, "the activation");
  check(given.tied == read.tied, "whether the head is the embedding");
  check(given.qkv_bias == read.qkv_bias && given.o_bias == read.o_bias && given.mlp_bias == read.mlp_bias &&
            given.head_bias == read.head_bias,
        "which linears have a bias");
  check(near(given.attention_scale, read.attention_scale), "the scale of attention");
  check(near(given.value_scale, read.value_scale), "the scale of values");
  check(given.qk_norm == read.qk_norm, "whether q and k have norms");
  check(given.temperature_period == read.temperature_period && near(given.temperature_beta, read.temperature_beta),
        "how queries grow with the position");
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
