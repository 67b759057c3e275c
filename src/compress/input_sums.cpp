#include "compress/input_sums.h"

#include <algorithm>
#include <cmath>

namespace ingot {

void InputSums::add(const float* x, int64_t n, int64_t stride, ThreadPool& pool) {
  rows += static_cast<double>(n);
  // By columns, so that the order of additions is the same for any number of threads.
  constexpr int64_t kColumns = 64;
  const auto cols = static_cast<int64_t>(squares.size());
  const auto add_columns = [&](int64_t task, int) {
    const int64_t begin = task * kColumns, end = std::min(cols, begin + kColumns);
    for (int64_t t = 0; t < n; ++t) {
      const float* row = x + t * stride;
      for (int64_t k = begin; k < end; ++k) {
        const auto i = static_cast<size_t>(k);
        const float magnitude = std::abs(row[k]);
        squares[i] += static_cast<double>(row[k]) * static_cast<double>(row[k]);
        magnitudes[i] += static_cast<double>(magnitude);
        largest[i] = std::max(largest[i], magnitude);
      }
    }
  };
  pool.run((cols + kColumns - 1) / kColumns, add_columns);
}

}  // namespace ingot
