// The CUDA version of an op that works element by element is one call of launch_each().
#pragma once

#include "cuda/elements.cuh"
#include "ops/cuda/ctx.h"

namespace ingot::cuda {

// out = f(a), or f(a, b) where F::kInputs is 2, for every element. `out` may be a or b.
template <class F>
void launch_each(const Ctx& ctx, const Tensor& out, const Tensor& a, const Tensor& b, const F& f) {
  const int64_t rows = ctx.rows(out);
  if (rows == 0) return;
  const bool wide = in_fours(out) && in_fours(a) && in_fours(b);
  launch(ctx, each_value<F>, each_shape(rows, out.cols), View(out), View(a), View(b), rows, wide, f);
}
template <class F>
void launch_each(const Ctx& ctx, const Tensor& out, const Tensor& a, const F& f) {
  launch_each(ctx, out, a, a, f);
}

}  // namespace ingot::cuda
