// The numbers that define a model, one struct whatever file they come from.
#pragma once

#include <string>
#include <vector>

#include "tensor/router_spec.h"
#include "weights/rope_scaling.h"

namespace ingot {

class Config;

// Latent attention: keys and values are made of a latent of `kv_rank` values, beside which a token has `rope_dim`
// rotary ones. Heads of q and k have nope_dim + rope_dim values, the rotary ones last.
struct LatentSpec {
  int q_rank = 0;  // of q's own latent; 0: q is made of the row itself
  int kv_rank = 0;
  int nope_dim = 0, rope_dim = 0, v_dim = 0;

  explicit operator bool() const { return kv_rank != 0; }
  int head_dim() const { return nope_dim + rope_dim; }
};

// The experts of a model whose layers choose among several MLPs.
struct ExpertParams {
  int count = 0;       // E of a layer; 0: the model has none
  int used = 0;        // k of a row
  int ffn = 0;         // width of an expert's middle
  int shared_ffn = 0;  // of the MLP that every row meets beside its experts; 0: none
  RouterSpec router;
  std::vector<bool> layers;  // [layers] those that have experts; empty: none has

  bool in_layer(int i) const { return count > 0 && layers[static_cast<size_t>(i)]; }
};

struct Hparams {
  std::string arch;  // the name of the model's file in models/: "llama", "gemma3" …
  int layers = 0;
  int hidden = 0;          // D
  int heads = 0;           // H
  int kv_heads = 0;        // K
  int kv_heads_local = 0;  // of the sliding-window layers; 0: kv_heads
  int head_dim = 0;
  int v_dim = 0;    // of a value's head; 0: head_dim
  int ffn = 0;      // width of the MLP's middle
  int vocab = 0;    // V, the rows of the embedding
  int context = 0;  // positions that the model was made for
  float eps = 1e-5f;
  std::string activation = "silu";  // silu, gelu or gelu_tanh
  bool tied = false;                // the head is the embedding
  bool qkv_bias = false, o_bias = false, mlp_bias = false, head_bias = false;

  float attention_scale = 0;  // of q · k; usually 1 / sqrt(head_dim)
  float embed_scale = 1;
  float residual_scale = 1;
  float logit_scale = 1;
  float attn_softcap = 0;      // 0: none
  float final_softcap = 0;     // 0: none
  float norm_offset = 0;       // added to the stored weights of RMS norms
  float value_scale = 1;       // of v
  bool qk_norm = false;        // where a model's file says that q and k may have norms
  int temperature_period = 0;  // positions after which queries of layers without rope grow; 0: they do not
  float temperature_beta = 0;  //   by so much of a logarithm (ops/position_scale)

  LatentSpec latent;

  RopeSpec rope;
  RopeSpec rope_local;              // of the sliding-window layers
  int window = 0;                   // of the sliding-window layers
  bool chunked = false;             // which see their own chunk of `window` positions instead
  std::vector<bool> sliding;        // [layers]
  std::vector<bool> uses_rope;      // [layers]
  bool transposed_linears = false;  // stored [K, N] instead of [N, K]
  ExpertParams experts;

  const RopeSpec& rope_of(int layer) const { return sliding[static_cast<size_t>(layer)] ? rope_local : rope; }
  int window_of(int layer) const { return sliding[static_cast<size_t>(layer)] ? window : 0; }
  int kv_heads_of(int layer) const {
    return kv_heads_local > 0 && sliding[static_cast<size_t>(layer)] ? kv_heads_local : kv_heads;
  }
  int value_dim() const { return v_dim > 0 ? v_dim : head_dim; }
};

// What all architectures have in common. The model's own file adds its peculiarities. Throws Error for a
// missing, contradictory or absurd value: the limits here are what keeps later sizes small enough to multiply.
Hparams read_hparams(const Config& config);

// The numbers of hp.experts by any of the names that configs have for them; layers() are all but the first dense ones.
// A model's file calls it and corrects what is its own. Throws Error where they contradict each other.
void read_experts(Hparams& hp, const Config& config);

// Throws Error where a router cannot choose so: read_experts() calls it, and whoever changes hp.experts after that.
void check_experts(const ExpertParams& experts);

}  // namespace ingot
