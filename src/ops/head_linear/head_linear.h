// A product for each head: out of head h = x of head h · W_hᵀ, where W_h is rows [h · N, (h + 1) · N) of one weight.
// A head of x may have `tail` more columns than W_h takes; they are copied behind the head's outputs. So latent
// attention takes its queries into the space of the latent, and what it has read of the latent back to values.
// The value of an output depends on its row and head of x and its row of W alone.
#pragma once

#include <memory>

#include "ops/ctx.h"
#include "quant/panels.h"
#include "quant/weight.h"

namespace ingot {

namespace cpu {
struct HeadProducts;
}
namespace cuda {
struct StreamedPart;
}

struct HeadLinear {
  Tensor x;       // [T, heads · (K + tail)]
  Weight weight;  // [heads · N, K] any format
  Tensor out;     // [T, heads · (N + tail)]
  int heads = 1;
  int64_t tail = 0;
  const PackedWeight* packed = nullptr;               // set by cpu::prepare() where the format has panels
  std::shared_ptr<cpu::HeadProducts> products = {};   // of the CPU, made by prepare()
  std::shared_ptr<cuda::StreamedPart> streamed = {};  // of a GPU, likewise

  int64_t outputs() const { return weight.rows / heads; }  // N
  template <class F>
  void each(F&& f) {
    f.in(x);
    f.weight(weight);
    f.out(out);
  }
  Cost cost(const Shape& s) const {
    const double rows = static_cast<double>(s.rows(x.rows));
    return {s.bytes(x) + s.bytes(out) + static_cast<double>(weight.bytes()),
            2 * rows * static_cast<double>(weight.rows * weight.cols)};
  }
  bool by_row() const { return true; }
  template <class F>
  void each_matrix(F&& f) const {
    f(weight, packed);
  }
  template <class F>
  void each_bf16(F&& f) const {
    if (weight.format == Format::kF32) return;
    f.may(x);
    f.may(out);
  }
};

namespace ref {
void run(const HeadLinear& op, Ctx& ctx);
}
namespace cpu {
void prepare(HeadLinear& op, Prepare& p);
void run(const HeadLinear& op, Ctx& ctx);
}  // namespace cpu

}  // namespace ingot
