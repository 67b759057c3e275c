// What the rows that a matrix reads add up to, column by column.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace ingot {

// Sums are in double: 24 k squares of unlike sizes are added. The same for any number of threads.
struct InputSums {
  explicit InputSums(int64_t cols)
      : squares(static_cast<size_t>(cols)), magnitudes(static_cast<size_t>(cols)), largest(static_cast<size_t>(cols)) {}

  // `n` rows, `stride` values apart.
  void add(const float* x, int64_t n, int64_t stride, ThreadPool& pool);

  std::vector<double> squares, magnitudes;  // [cols]
  std::vector<float> largest;               // [cols] magnitudes
  double rows = 0;
};

}  // namespace ingot
