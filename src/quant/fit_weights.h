// How much each value's error counts while a group of values is fitted.
#pragma once

#include <cmath>
#include <cstddef>

namespace ingot {
namespace {  // a set of instructions has its own

// Writes n weights: the importance (null: 1) times √(2·mean x² + x²). A large value so counts somewhat more than a
// small one of equal importance. The best of four rules tried with one model of 15M (2,921 tokens of its own text,
// without importances, so the gains below are a little flattered): KLD against plain squares 0.94, 0.95, 1.05 and 0.95
// with Q2_K, Q3_K, Q4_K and IQ4_XS, ± 0.03. A column that was never used keeps a hundred-thousandth of the mean, so
// that its values are fitted, too.
// REQUIRES: n is a multiple of 8.
inline void fit_weights(const float* x, const float* importance, size_t n, float* weights) {
  // In eight lanes, so that no addition waits for the one before it, in one order on every machine.
  float lane[8] = {}, lane_mean[8] = {}, squares = 0, mean = 0;
  for (size_t i = 0; i < n; i += 8) {
    for (size_t l = 0; l < 8; ++l) lane[l] += x[i + l] * x[i + l];
  }
  for (size_t i = 0; importance && i < n; i += 8) {
    for (size_t l = 0; l < 8; ++l) lane_mean[l] += importance[i + l];
  }
  for (size_t l = 0; l < 8; ++l) {
    squares += lane[l];
    mean += lane_mean[l];
  }
  squares *= 2.0f / static_cast<float>(n);
  mean *= 1e-5f / static_cast<float>(n);
  const bool known = mean > 0;
  for (size_t i = 0; i < n; ++i) {
    weights[i] = (known ? importance[i] + mean : 1.0f) * std::sqrt(squares + x[i] * x[i]);
  }
}

}  // namespace
}  // namespace ingot
