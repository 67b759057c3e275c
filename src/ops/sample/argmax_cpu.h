// The index of a row's largest element: the lowest where several are equal, and NaN is smaller than everything.
#pragma once

#include <limits>

#include "ops/row_loop.h"

namespace ingot::cpu {

struct RowLargest {
  int32_t id;      // the first of the largest
  bool below_inf;  // every element, and none is NaN
};

inline RowLargest largest_of_row(const float* x, int64_t n) {
  // The largest of each block first; only the first block that holds the row's largest is searched for it.
  constexpr int64_t kBlock = 2048;
  float best = -std::numeric_limits<float>::infinity();
  int64_t begin = 0;
  bool below_inf = true;
  for (int64_t i = 0; i < n; i += kBlock) {
    const LaneMax max = lane_max_below_inf(x + i, std::min(kBlock, n - i));
    below_inf &= max.below_inf;
    if (max.largest > best) {
      best = max.largest;
      begin = i;
    }
  }
  for (int64_t i = begin; i < n; ++i)
    if (x[i] == best) return {static_cast<int32_t>(i), below_inf};
  return {0, below_inf};  // nothing but NaN
}
inline int32_t argmax_row(const float* x, int64_t n) { return largest_of_row(x, n).id; }

}  // namespace ingot::cpu
