// out = x / sqrt(mean(x²) + eps) · weight over each `width` columns of a row, accumulated in f32:
// the whole row for a layer's norm, one head for the norms of q and k.
#pragma once

#include <memory>

#include "ops/ctx.h"
#include "quant/weight.h"

namespace ingot {

namespace cuda {
struct DeviceRoute;
}

struct RmsNorm {
  Tensor x;           // [T, D]
  Weight weight;      // [width] f32
  Tensor out;         // [T, D] may alias x
  int64_t width = 0;  // D, or a divisor of it
  float eps = 0;
  // Set by cuda::link() where a router's launch makes the norm of few rows.
  std::shared_ptr<cuda::DeviceRoute> route = nullptr;

  template <class F>
  void each(F&& f) {
    f.in(x);
    f.weight(weight);
    f.out(out);
    f.alias(out, x);
  }
  Cost cost(const Shape& s) const { return {2 * s.bytes(x), 4.0 * static_cast<double>(s.count(x))}; }
  bool by_row() const { return true; }
};

namespace ref {
void run(const RmsNorm& op, Ctx& ctx);
}
namespace cpu {
void run(const RmsNorm& op, Ctx& ctx);
}

}  // namespace ingot
