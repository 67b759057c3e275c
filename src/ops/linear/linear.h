// out = x · Wᵀ (+ bias) for one to three weights that share their input, with what follows fused in:
//   glu       two weights, gate and up: parts[0].out = f(gate) · up, and parts[1].out is not written;
//   residual  one weight: out = residual + (x · Wᵀ + bias).
// The value of an output depends on its row of x and its row of W alone: the order of additions over K
// is the same for every number of rows, parts, threads and whichever variant runs.
#pragma once

#include <array>

#include "ops/activation_kind.h"
#include "ops/ctx.h"
#include "quant/panels.h"
#include "quant/weight.h"

namespace ingot {

struct Linear {
  struct Part {
    Weight weight;                         // [N, K] any format
    Weight bias;                           // [N] f32, or none
    Tensor out;                            // [T, N]
    const PackedWeight* packed = nullptr;  // set by cpu::prepare() where the format has panels
  };

  Tensor x;  // [T, K]
  std::array<Part, 3> parts;
  int n_parts = 1;
  ActivationKind glu = ActivationKind::kNone;
  Tensor residual;  // [T, N], or none; parts[0].out may alias it

  bool is_glu() const { return glu != ActivationKind::kNone; }
  template <class F>
  void each(F&& f) {
    f.in(x);
    if (residual) f.in(residual);
    for (int i = 0; i < n_parts; ++i) {
      Part& part = parts[static_cast<size_t>(i)];
      f.weight(part.weight);
      if (part.bias) f.weight(part.bias);
      if (i == 0 || !is_glu()) f.out(part.out);
    }
    if (residual) f.alias(parts[0].out, residual);
  }
  Cost cost(const Shape& s) const {
    Cost total{s.bytes(x), 0};
    const double rows = static_cast<double>(s.rows(x.rows));
    for (int i = 0; i < n_parts; ++i) {
      const Weight& w = parts[static_cast<size_t>(i)].weight;
      total.bytes += static_cast<double>(w.bytes()) + rows * static_cast<double>(w.rows) * 4;
      total.flops += 2 * rows * static_cast<double>(w.rows * w.cols);
    }
    return total;
  }
};

namespace ref {
void run(const Linear& op, Ctx& ctx);
}
namespace cpu {
void prepare(Linear& op, Prepare& p);
void run(const Linear& op, Ctx& ctx);
}  // namespace cpu

}  // namespace ingot
