#include "models/experts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "models/blocks.h"

namespace ingot {
namespace {

// What scores are made of: one that is no number would choose the same experts for every row, and give nothing.
Weight finite(const Weight& weight) {
  std::vector<float> row(static_cast<size_t>(weight.cols));
  for (int64_t r = 0; r < weight.rows; ++r) {
    weight.decode_row(r, row.data());
    if (!std::ranges::all_of(row, [](float v) { return std::isfinite(v); }))
      throw Error("[weights] '{}' has a value that is not a number", weight.name);
  }
  return weight;
}

// GGUF has one name for the bias of every architecture.
Weight choice_bias(Build& b, const Names& w, const std::string& name, int64_t count) {
  if (name.empty()) return {};
  const std::string in_gguf = w["expert_bias"].bias(), own = w[name].path();
  return finite(b.weights().vector(b.weights().has(own) ? own : in_gguf, count));
}

Tensor router_logits(Build& b, const Tensor& x, const Names& w, int64_t count, bool bias) {
  const Weight weight = finite(b.weights().take(w.weight(), count, x.cols, {.as_f32 = true}));
  return b.linear(x, weight, w.path(), bias ? finite(b.weights().vector(w.bias(), count)) : Weight{});
}

Tensor shared_mlp(Build& b, const Tensor& x, const Names& w, const Hparams& hp, const MoeSpec& spec) {
  Hparams own = hp;
  own.ffn = hp.experts.shared_ffn;
  const Tensor out = gated_mlp(b, x, w[spec.shared], own);
  if (spec.shared_gate.empty()) return out;
  const Tensor gate = b.linear(x, w[spec.shared_gate], {.out = 1, .take = {.as_f32 = true}});
  return b.glu(gate, out, ActivationKind::kSigmoid);
}

}  // namespace

Tensor moe(Build& b, const Tensor& x, const Names& w, const Hparams& hp, const MoeSpec& spec) {
  const ExpertParams& e = hp.experts;
  const Tensor logits = router_logits(b, x, w[spec.router], e.count, spec.router_bias);
  const Routed routed = b.route(logits, e.router, e.used, choice_bias(b, w, spec.choice_bias, e.count), w);
  ExpertsSpec experts{.count = e.count, .out = e.ffn, .bias = spec.expert_bias, .form = spec.form};
  const ActivationKind kind = spec.activation == ActivationKind::kNone ? activation_kind(hp) : spec.activation;
  const Names of_experts = spec.experts.empty() ? w : w[spec.experts];
  Tensor h = b.experts_glu(x, routed, of_experts, experts, kind, spec.scaled_input);
  experts.out = hp.hidden;
  h = b.experts_down(h, routed, of_experts, experts, spec.scaled_input);
  if (spec.shared.empty() || e.shared_ffn == 0) return h;
  return b.add(h, shared_mlp(b, x, w, hp, spec));
}

Tensor moe_or_mlp(Build& b, const Tensor& x, const Names& w, const Hparams& hp, int layer, const MoeSpec& spec) {
  return hp.experts.in_layer(layer) ? moe(b, x, w["mlp"], hp, spec) : gated_mlp(b, x, w["mlp"], hp);
}

void ignore_later_layers(Build& b, const Hparams& hp) {
  const std::string layers = "model.layers.";
  for (const std::string& name : b.weights().source().names()) {
    if (!name.starts_with(layers)) continue;
    if (std::atoi(name.c_str() + layers.size()) >= hp.layers) b.weights().ignore(name);
  }
}

}  // namespace ingot
