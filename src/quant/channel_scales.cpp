#include "quant/channel_scales.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ingot {
namespace {

// Beyond these a factor would take 16-bit norms out of their range sooner than it helped any rounding.
constexpr double kLargest = 256, kFloor = 1.0 / 4096;

double log_of(float v, float largest) { return std::log(std::max<double>(v, kFloor * largest)); }

float largest_of(std::span<const float> x) {
  const float largest = *std::ranges::max_element(x);
  return largest > 0 ? largest : 1.0f;
}

std::vector<float> from_logs(std::vector<double> logs) {
  double mean = 0;
  for (const double v : logs) mean += v / static_cast<double>(logs.size());
  std::vector<float> scales;
  for (const double v : logs)
    scales.push_back(static_cast<float>(std::clamp(std::exp(v - mean), 1 / kLargest, kLargest)));
  return scales;
}

}  // namespace

std::vector<float> awq_scales(std::span<const float> mean_abs, float alpha) {
  const float largest = largest_of(mean_abs);
  std::vector<double> logs;
  for (const float v : mean_abs) logs.push_back(static_cast<double>(alpha) * log_of(v, largest));
  return from_logs(std::move(logs));
}

std::vector<float> smooth_scales(std::span<const float> largest_x, std::span<const float> largest_w, float share) {
  CHECK(largest_x.size() == largest_w.size(), "{} maxima of x, {} of w", largest_x.size(), largest_w.size());
  const float x = largest_of(largest_x), w = largest_of(largest_w);
  const auto part = static_cast<double>(share);
  std::vector<double> logs;
  for (size_t k = 0; k < largest_x.size(); ++k)
    logs.push_back(part * log_of(largest_x[k], x) - (1 - part) * log_of(largest_w[k], w));
  return from_logs(std::move(logs));
}

void round_rows_int8(std::span<float> x, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const std::span<float> row = x.subspan(static_cast<size_t>(r * cols), static_cast<size_t>(cols));
    float largest = 0;
    for (const float v : row) largest = std::max(largest, std::abs(v));
    if (largest == 0) continue;
    const float d = largest / 127;
    for (float& v : row) v = std::nearbyint(v / d) * d;
  }
}

void add_products(std::span<const float> w, std::span<const float> x, std::span<float> out) {
  CHECK(x.size() == w.size() * out.size(), "{} values for {} × {}", x.size(), w.size(), out.size());
  float* to = out.data();
  for (size_t k = 0; k < w.size(); ++k) {
    const float* column = x.data() + k * out.size();
    const float factor = w[k];
    for (size_t t = 0; t < out.size(); ++t) to[t] += factor * column[t];
  }
}

}  // namespace ingot
