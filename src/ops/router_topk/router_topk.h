// Which experts a row meets, and by how much each of their results counts, from the router's logits. Experts are chosen
// by their score, with a bias where there is one that chooses but does not weigh; equal ones by the lower index. All in
// float32. A row with a logit that is not a number gets the first experts, with weights that are none.
#pragma once

#include <memory>

#include "ops/ctx.h"
#include "quant/weight.h"
#include "tensor/router_spec.h"

namespace ingot {

namespace cuda {
struct DeviceRoute;
}

struct RouterTopk {
  Tensor logits;   // [T, E] E <= kMostExperts
  Weight bias;     // [E] f32, or none
  Tensor experts;  // [T, k] i32: the chosen, in order of their index; k <= E, k <= kMostExpertsUsed
  Tensor weights;  // [T, k]
  RouterSpec spec;
  // Set by cuda::link() where one launch makes norm, logits, choice and the list of places of few rows.
  std::shared_ptr<cuda::DeviceRoute> route = nullptr;

  template <class F>
  void each(F&& f) {
    f.in(logits);
    if (bias) f.weight(bias);
    f.out(experts);
    f.out(weights);
  }
  Cost cost(const Shape& s) const {
    return {s.bytes(logits) + s.bytes(experts) + s.bytes(weights),
            static_cast<double>(s.count(logits)) * (10.0 + static_cast<double>(experts.cols))};
  }
  bool by_row() const { return true; }
};

namespace ref {
void run(const RouterTopk& op, Ctx& ctx);
}
namespace cpu {
void run(const RouterTopk& op, Ctx& ctx);
}

}  // namespace ingot
