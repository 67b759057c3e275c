#include "models/latent_blocks.h"

#include <cmath>

#include "base/error.h"
#include "models/experts.h"
#include "weights/config.h"

namespace ingot {
namespace {

// The norms of both latents have an epsilon of their own in the models' training code, whatever the config says.
constexpr float kLatentEps = 1e-6f;

// How much longer context makes scores sharper: yarn's factor for all dimensions, squared, since q and k have it.
double score_factor(const RopeSpec& rope) {
  const double all = rope.mscale_all_dim.value_or(0);
  if (rope.kind != RopeKind::kYarn || all == 0 || rope.factor <= 1) return 1;
  const double mscale = 0.1 * all * std::log(rope.factor) + 1;
  return mscale * mscale;
}

void read_sizes(LatentSpec& l, const Config& config) {
  constexpr int kMost = 1 << 14;
  l.q_rank = config.integer("q_lora_rank", "attention.q_lora_rank", 1, kMost, 0);
  l.kv_rank = config.integer("kv_lora_rank", "attention.kv_lora_rank", 1, kMost);
  l.rope_dim = config.integer("qk_rope_head_dim", "rope.dimension_count", 2, kMost);
  if (config.is_gguf()) {
    // Files that hold the absorbed form call the sizes of its one KV head key_length and value_length.
    const bool mla = config.number("", "attention.key_length_mla").has_value();
    const int head = config.integer("", mla ? "attention.key_length_mla" : "attention.key_length", 1, kMost);
    l.v_dim = config.integer("", mla ? "attention.value_length_mla" : "attention.value_length", 1, kMost);
    l.nope_dim = head - l.rope_dim;
    if (l.nope_dim < 1) throw Error("[config] heads of {} values with {} rotary ones", head, l.rope_dim);
  } else {
    l.nope_dim = config.integer("qk_nope_head_dim", "", 1, kMost);
    l.v_dim = config.integer("v_head_dim", "", 1, kMost);
  }
  if (l.rope_dim % 2) throw Error("[config] {} rotary values of a head are no pairs", l.rope_dim);
}

}  // namespace

void configure_latent(Hparams& hp, const Config& config) {
  read_sizes(hp.latent, config);
  if (const auto log_multiplier = config.number("", "rope.scaling.yarn_log_multiplier")) {
    // GGUF has a tenth of mscale_all_dim, and leaves cos and sin as they are.
    hp.rope.mscale = hp.rope.mscale_all_dim = *log_multiplier * 10;
    hp.rope.attention_factor.reset();
  }
  hp.rope.head_dim = hp.latent.rope_dim;
  hp.rope.partial = 1;
  hp.rope.interleaved = config.boolean("rope_interleave", "").value_or(true);
  if (hp.rope.score_beta != 0 && hp.rope.original_context < 1)
    throw Error("[config] scores grow with the position, but original_max_position_embeddings is missing");
  hp.rope_local = hp.rope;
  hp.kv_heads = 1;
  hp.attention_scale = static_cast<float>(score_factor(hp.rope) / std::sqrt(hp.latent.head_dim()));
}

Tensor latent_attend(Build& b, const Tensor& x, const Names& w, const Hparams& hp, int i) {
  const LatentSpec& l = hp.latent;
  const int64_t q_cols = int64_t{hp.heads} * l.head_dim();
  const LinearSpec to_q{.out = q_cols, .take = {.shard = Shard::kCols}};
  Tensor q = l.q_rank > 0 ? b.linear(x, w["q_a_proj"], {.out = l.q_rank, .bias = hp.qkv_bias, .take = {}})
                          : b.linear(x, w["q_proj"], to_q);
  const Tensor kv =
      b.linear(x, w["kv_a_proj_with_mqa"], {.out = int64_t{l.kv_rank} + l.rope_dim, .bias = hp.qkv_bias, .take = {}});
  if (l.q_rank > 0) q = b.linear(b.rms_norm(q, w["q_a_layernorm"], kLatentEps), w["q_b_proj"], to_q);
  const Tensor latent = b.rms_norm(columns(kv, 0, l.kv_rank), w["kv_a_layernorm"], kLatentEps);
  const Tensor rotary = columns(kv, l.kv_rank, l.rope_dim);
  b.rope(q, rotary, hp.rope_of(i), l.head_dim(), l.nope_dim);
  if (hp.rope.score_beta != 0) b.position_scale(q, hp.rope.original_context, static_cast<float>(hp.rope.score_beta));
  const UpProjection up = b.weights().up_projection(w.path(), hp.heads, l.nope_dim, l.v_dim, l.kv_rank);
  q = b.head_linear(q, up.key, hp.heads, l.rope_dim, w["k_b_proj"].path());
  const AttentionSpec spec{.heads = hp.heads,
                           .kv_heads = 1,
                           .k_dim = l.rope_dim,
                           .v_dim = l.kv_rank,
                           .scale = hp.attention_scale,
                           .latent = true};
  const Tensor read = b.attention(q, rotary, latent, spec, w);
  const Tensor out = b.head_linear(read, up.value, hp.heads, 0, w["v_b_proj"].path());
  return b.linear(out, w["o_proj"], {.out = hp.hidden, .bias = hp.o_bias, .take = {.shard = Shard::kRows}});
}

Tensor deepseek_layer(Build& b, Tensor x, const Hparams& hp, int i) {
  const Names w = b.names("model.layers", i);
  x = b.add(x, latent_attend(b, norm(b, x, w["input_layernorm"], hp), w["self_attn"], hp, i));
  const bool biased = hp.experts.router.score == RouterScore::kSigmoid;
  const MoeSpec spec{.choice_bias = biased ? "gate.e_score_correction_bias" : "", .shared = "shared_experts"};
  x = b.add(x, moe_or_mlp(b, norm(b, x, w["post_attention_layernorm"], hp), w, hp, i, spec));
  if (i + 1 == hp.layers) ignore_later_layers(b, hp);
  return x;
}

std::vector<std::pair<std::string, std::string>> latent_gguf_names() {
  return {{"attn_q_a", "self_attn.q_a_proj"},
          {"attn_q_a_norm", "self_attn.q_a_layernorm"},
          {"attn_q_b", "self_attn.q_b_proj"},
          {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
          {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
          {"attn_kv_b", "self_attn.kv_b_proj"},
          {"attn_k_b", "self_attn.k_b_proj"},
          {"attn_v_b", "self_attn.v_b_proj"}};
}

}  // namespace ingot
