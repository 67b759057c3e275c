// How much each value's error counts while a group of values is fitted.
#pragma once

#include <cmath>
#include <cstddef>

namespace ingot {

// Writes n weights: ones without importances. With them a large value counts somewhat more than a small one of equal
// importance: its column's mean square is that of a sample, and large weights stand where a model is sensitive. A
// column that was never used keeps a hundred-thousandth of the mean, so that its values are fitted, too.
inline void fit_weights(const float* x, const float* importance, size_t n, float* weights) {
  float squares = 0, mean = 0;
  if (importance) {
    for (size_t i = 0; i < n; ++i) {
      squares += x[i] * x[i];
      mean += importance[i];
    }
    squares *= 2.0f / static_cast<float>(n);
    mean *= 1e-5f / static_cast<float>(n);
  }
  if (!(mean > 0)) {
    for (size_t i = 0; i < n; ++i) weights[i] = 1.0f;
    return;
  }
  for (size_t i = 0; i < n; ++i) weights[i] = (importance[i] + mean) * std::sqrt(squares + x[i] * x[i]);
}

}  // namespace ingot
