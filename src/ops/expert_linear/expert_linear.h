// The linears of experts: each row meets the k experts that the router chose for it, x · Wᵀ (+ bias) of each.
//   glu   two weights, gate and up: f(gate) · up, and what up gives is not written;
//   scale the row is multiplied by its expert's weight before the product;
//   out   the results of a row's experts are added, each times its weight where weights are given, in the order in
//   which
//         the row has them.
// A place is one expert of one row: place t · k + j is row t's j-th. The value of an output depends on its row alone.
// Where ranks have experts of their own, one of -1 is another's: its place is left as it is, and not added (on the
// CPU).
//
// The CPU sorts places by expert, so that each expert's weights are read once for all rows that meet it.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "ops/ctx.h"
#include "quant/panels.h"
#include "quant/weight.h"
#include "tensor/activation_kind.h"

namespace ingot {

namespace cuda {
struct DeviceExperts;
}

struct ExpertLinear {
  struct Part {
    std::vector<Weight> weights;                   // [E] each [N, K], any format
    Weight bias;                                   // [E · N] f32, or none
    std::vector<const PackedWeight*> packed = {};  // [E] set by cpu::prepare() where the format has panels
  };

  Tensor x;        // [T, K], or [T, k · K]: a row for each place
  Tensor experts;  // [T, k] i32; -1: not of this rank
  std::array<Part, 2> parts;
  int n_parts = 1;
  ActivationKind glu = ActivationKind::kNone;
  Tensor weights;  // [T, k], or none; with `scale` or `out` alone
  bool scale = false;
  int64_t layer_count = 0;  // experts of the layer where E are this rank's; 0: all are
  Tensor places;            // [T, k · N] the result of each place
  Tensor out;               // [T, N], or none
  // Set by cuda::prepare().
  std::shared_ptr<cuda::DeviceExperts> device;

  bool is_glu() const { return glu != ActivationKind::kNone; }
  int64_t count() const { return static_cast<int64_t>(parts[0].weights.size()); }  // E
  int64_t used() const { return experts.cols; }                                    // k
  int64_t rows_out() const { return parts[0].weights[0].rows; }                    // N
  int64_t cols_in() const { return parts[0].weights[0].cols; }                     // K
  bool by_place() const { return x.cols != cols_in(); }

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.in(experts);
    if (weights) f.in(weights);
    for (int i = 0; i < n_parts; ++i) {
      Part& part = parts[static_cast<size_t>(i)];
      for (Weight& w : part.weights) f.weight(w);
      if (part.bias) f.weight(part.bias);
    }
    f.out(places);
    if (out) f.out(out);
  }
  // The chance of an expert to be one of a row's, where each has the same.
  double chance() const {
    return static_cast<double>(used()) / static_cast<double>(layer_count > 0 ? layer_count : count());
  }
  // How many experts `rows` rows are expected to meet.
  double touched(double rows) const { return static_cast<double>(count()) * (1 - std::pow(1 - chance(), rows)); }
  Cost cost(const Shape& s) const {
    Cost total{s.bytes(x) + s.bytes(places) + s.bytes(out), 0};
    const double rows = static_cast<double>(s.rows(x.rows));
    for (int i = 0; i < n_parts; ++i) {
      const Weight& w = parts[static_cast<size_t>(i)].weights[0];
      total.bytes += touched(rows) * static_cast<double>(w.bytes());
      total.flops += 2 * rows * chance() * static_cast<double>(count() * w.rows * w.cols);
    }
    return total;
  }
  bool by_row() const { return true; }
  template <class F>
  void each_matrix(F&& f) const {
    for (size_t i = 0; i < static_cast<size_t>(n_parts); ++i) {
      for (size_t e = 0; e < parts[i].weights.size(); ++e) {
        bool in_panels = !parts[i].packed.empty() && parts[0].packed[e] != nullptr;
        if (is_glu()) in_panels = in_panels && parts[1].packed[e] != nullptr;
        f(parts[i].weights[e], in_panels ? parts[i].packed[e] : nullptr);
      }
    }
  }
  // On a device x is rounded to bf16 unless weights are F32.
  template <class F>
  void each_bf16(F&& f) const {
    for (size_t i = 0; i < static_cast<size_t>(n_parts); ++i)
      if (parts[i].weights[0].format == Format::kF32) return;
    f.may(x);
    if (!out) f.may(places);
  }
  bool packs_bf16() const { return true; }
  // The part of its matrices that `rows` rows read.
  double matrix_share(double rows) const { return touched(rows) / static_cast<double>(count()); }
};

namespace ref {
void run(const ExpertLinear& op, Ctx& ctx);
}
namespace cpu {
void prepare(ExpertLinear& op, Prepare& p);
void run(const ExpertLinear& op, Ctx& ctx);
}  // namespace cpu

}  // namespace ingot
