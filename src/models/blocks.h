// Pieces that most decoders are made of. A model's file composes them and writes out what is its own.
#pragma once

#include "graph/build.h"

namespace ingot {

class Config;

struct Qkv {
  Tensor q;  // [T, H · head_dim]
  Tensor k;  // [T, K · head_dim]
  Tensor v;  // [T, K · head_dim]
};

// q, k and v from their own projections, or from one fused qkv_proj where the file has that.
Qkv qkv(Build& b, const Tensor& x, const Names& w, const Hparams& hp);

struct AttendOptions {
  bool rope = true;   // false: q and k are rotated already
  Weight sinks = {};  // [H] f32, or none
  Tensor gate = {};   // [T, H · head_dim], or none: its sigmoid multiplies what attention gives
};

// Rope as layer `i` has it, if it has any, then attention and the output projection.
Tensor attend(Build& b, const Qkv& a, const Names& w, const Hparams& hp, int i, const AttendOptions& options = {});

// down(f(gate(x)) · up(x)), from gate_proj and up_proj or from a fused gate_up_proj, which some call input_linear.
Tensor gated_mlp(Build& b, const Tensor& x, const Names& w, const Hparams& hp);

// The RMS norm of this model: its epsilon and the offset of its weights.
Tensor norm(Build& b, const Tensor& x, const Names& w, const Hparams& hp);

// The layer of Llama, which many others share: x + attention(norm(x)), then x + mlp(norm(x)), or experts in its place.
Tensor llama_layer(Build& b, Tensor x, const Hparams& hp, int i);

// Embedding → layers → final norm → head → "logits", with the model's scales and caps. `layer` adds layer i.
// `final_norm`: norm() of model.norm where it is null.
void decoder(Build& b, const Hparams& hp, Tensor (*layer)(Build& b, Tensor x, const Hparams& hp, int i),
             Tensor (*final_norm)(Build& b, const Tensor& x, const Hparams& hp) = nullptr);

// The end of every decoder: rows whose logits are wanted → `final_norm` → projection → "logits".
void head(Build& b, Tensor x, const Hparams& hp, const Names& embedding,
          Tensor (*final_norm)(Build& b, const Tensor& x, const Hparams& hp));

ActivationKind activation_kind(const Hparams& hp);

// Granite's four multipliers, on the embedding, the attention scores, each residual branch and the logits, and its
// biases on attention.
void read_granite_multipliers(Hparams& hp, const Config& config);

}  // namespace ingot
