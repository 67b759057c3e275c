// out = x · Wᵀ (+ bias) for one to three weights that share their input, with what comes before and after fused in:
//   input     x is the norm of a row, or of the sum of two rows, which is written too;
//   glu       two weights, gate and up: parts[0].out = f(gate) · up, and parts[1].out is not written;
//   residual  one weight: out = residual + (x · Wᵀ + bias);
//   rope      three weights, q, k and v: their heads are normed, rotated, and written to the KV cache.
// Bit for bit what the ops of those names give. On the CPU all of it is one parallel region.
// The value of an output depends on its row of x and its row of W alone: the order of additions over K
// is the same for every number of rows, parts, threads and whichever variant runs.
#pragma once

#include <array>
#include <memory>

#include "ops/ctx.h"
#include "ops/rope_kv_write/rope_kv_write.h"
#include "quant/panels.h"
#include "quant/weight.h"
#include "tensor/activation_kind.h"

namespace ingot {

namespace cuda {
struct StreamedProduct;
struct DeviceRoute;
}  // namespace cuda

// What a linear does to its rows before it reads them: AddRmsNorm, or RmsNorm where `add` is none.
struct InputNorm {
  Weight weight;  // [K] f32; none: the rows are read as they are
  float eps = 0;
  Tensor add;       // [T, K], or none: x + add is what is normed
  Tensor sum;       // [T, K] that sum; may alias x or add
  Weight add_norm;  // [K] f32, or none: add is normed first
  float add_eps = 0;

  explicit operator bool() const { return static_cast<bool>(weight); }
};

// What is done to q, k and v when all of a row are there: RmsNorm of the heads of q and of k where they have one, then
// RopeKvWrite. The tensors are the outs of the linear's parts.
struct HeadsOutput {
  RopeKvWrite rope;
  struct Norm {
    Weight weight;  // [width] f32, or none
    int64_t width = 0;
    float eps = 0;
  };
  Norm q_norm, k_norm;

  explicit operator bool() const { return rope.head_dim != 0; }
};

struct Linear {
  struct Part {
    Weight weight;                         // [N, K] any format
    Weight bias;                           // [N] f32, or none
    Tensor out;                            // [T, N]
    const PackedWeight* packed = nullptr;  // set by cpu::prepare() where the format has panels
  };

  Tensor x;  // [T, K]
  InputNorm input;
  std::array<Part, 3> parts;
  int n_parts = 1;
  ActivationKind glu = ActivationKind::kNone;
  Tensor residual;  // [T, N], or none; parts[0].out may alias it
  HeadsOutput heads;
  // Set by cuda::prepare() and cuda::link() where a device streams the weights for few rows.
  std::shared_ptr<cuda::StreamedProduct> streamed;
  // Set by cuda::link() where a router's launch makes its logits of few rows.
  std::shared_ptr<cuda::DeviceRoute> route;

  bool is_glu() const { return glu != ActivationKind::kNone; }
  template <class F>
  void each(F&& f) {
    f.in(x);
    if (residual) f.in(residual);  // before the input's sum, which may lie where x does
    if (input) each_input(f);
    for (int i = 0; i < n_parts; ++i) {
      Part& part = parts[static_cast<size_t>(i)];
      f.weight(part.weight);
      if (part.bias) f.weight(part.bias);
      if (i == 0 || !is_glu()) f.out(part.out);
    }
    if (residual) f.alias(parts[0].out, residual);
    if (heads) each_heads(f);
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
  bool by_row() const { return !heads; }
  template <class F>
  void each_matrix(F&& f) const {
    // Gate and up are read in panels both or not at all.
    const bool in_panels = !is_glu() || (parts[0].packed != nullptr && parts[1].packed != nullptr);
    for (int i = 0; i < n_parts; ++i) {
      const Part& part = parts[static_cast<size_t>(i)];
      f(part.weight, in_panels ? part.packed : nullptr);
    }
  }
  template <class F>
  void each_kv(F&& f) {
    if (heads) f(heads.rope.kv);
  }
  template <class F>
  void each_bf16(F&& f) const {
    for (int i = 0; i < n_parts; ++i)
      if (parts[static_cast<size_t>(i)].weight.format == Format::kF32) return;
    if (!input) f.may(x);
    // With heads that is q alone: k and v go into the cache. A residual is of the stream, and so is what it gives.
    const bool own = heads || is_glu() || n_parts == 1;
    if (own && !residual) f.may(parts[0].out);
  }

 private:
  template <class F>
  void each_input(F& f) {
    f.weight(input.weight);
    if (!input.add) return;
    f.in(input.add);
    if (input.add_norm) f.weight(input.add_norm);
    f.out(input.sum);
    f.alias(input.sum, x);
    f.alias(input.sum, input.add);
  }
  template <class F>
  void each_heads(F& f) {
    for (HeadsOutput::Norm* norm : {&heads.q_norm, &heads.k_norm})
      if (norm->weight) f.weight(norm->weight);
    heads.rope.each(f);
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
