// The row of RmsNorm, shared with AddRmsNorm and the product's prologue so that all give the same bits.
#pragma once

#include <cmath>

#include "cpu/lane_sums.h"

namespace ingot::cpu {

// out[0, n) = x / sqrt(mean(x²) + eps) · weight; out may be x.
inline void rms_norm_row(const float* x, const float* weight, float* out, int64_t n, float eps) {
  const float squares = lane_sum(n, [x](int64_t i) { return x[i] * x[i]; });
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

}  // namespace ingot::cpu
