// The row of Argmax, which greedy sampling uses too.
#pragma once

#include <limits>

#include "ops/row_loop.h"

namespace ingot::cpu {

inline int32_t argmax_row(const float* x, int64_t n) {
  // The largest of each block first; only the first block that holds the row's largest is searched for it.
  constexpr int64_t kBlock = 2048;
  float best = -std::numeric_limits<float>::infinity();
  int64_t begin = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const float max = lane_max(x + i, std::min(kBlock, n - i));
    if (max > best) {
      best = max;
      begin = i;
    }
  }
  for (int64_t i = begin; i < n; ++i)
    if (x[i] == best) return static_cast<int32_t>(i);
  return 0;  // nothing but NaN
}

}  // namespace ingot::cpu
