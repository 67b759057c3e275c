// Layers of experts: a router chooses some of many MLPs for each row. A model's file says where its names and its forms
// differ; the numbers are hp.experts.
#pragma once

#include <string>

#include "graph/build.h"

namespace ingot {

struct MoeSpec {
  std::string router = "gate";      // the router's linear, below the layer's MLP
  bool router_bias = false;         // that linear has a bias
  std::string choice_bias = {};     // the vector that chooses but does not weigh; "": none
  std::string experts = "experts";  // below the layer's MLP; "": there itself
  bool expert_bias = false;
  ExpertForm form = {};
  ActivationKind activation = ActivationKind::kNone;  // kNone: the model's
  bool scaled_input = false;                          // weights multiply the expert's input, not its result
  std::string shared = {};       // the MLP that every row meets, where hp.experts.shared_ffn > 0; "": none
  std::string shared_gate = {};  // the linear whose sigmoid multiplies what that gives; "": 1
};

// Σ over a row's experts of weight · down(f(gate(x)) · up(x)), and the shared MLP's result. `w` is the layer's MLP.
Tensor moe(Build& b, const Tensor& x, const Names& w, const Hparams& hp, const MoeSpec& spec);

// moe() in layers with experts, gated_mlp() in the others, both below w["mlp"].
Tensor moe_or_mlp(Build& b, const Tensor& x, const Names& w, const Hparams& hp, int layer, const MoeSpec& spec);

// Accepts that the file has layers behind the last, which predict further tokens.
void ignore_later_layers(Build& b, const Hparams& hp);

}  // namespace ingot
