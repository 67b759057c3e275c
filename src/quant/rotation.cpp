#include "quant/rotation.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ingot {
namespace {

// SplitMix64: the same numbers everywhere, which std's distributions do not promise.
uint64_t next(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double uniform(uint64_t& state) { return static_cast<double>(next(state) >> 11) * 0x1p-53 - 0.5; }

// Rows of random numbers, each made orthogonal to those before it, twice: once leaves what rounding left.
std::vector<double> orthogonal(size_t n, uint64_t& state) {
  std::vector<double> q(n * n);
  for (size_t i = 0; i < n; ++i) {
    double* row = q.data() + i * n;
    for (size_t k = 0; k < n; ++k) row[k] = uniform(state);
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) {
        const double* other = q.data() + j * n;
        double dot = 0;
        for (size_t k = 0; k < n; ++k) dot += row[k] * other[k];
        for (size_t k = 0; k < n; ++k) row[k] -= dot * other[k];
      }
      double square = 0;
      for (size_t k = 0; k < n; ++k) square += row[k] * row[k];
      for (size_t k = 0; k < n; ++k) row[k] /= std::sqrt(square);
    }
  }
  return q;
}

}  // namespace

Rotation::Rotation(int64_t size, uint64_t seed) : size_(size), power_(1), odd_(size) {
  CHECK(size > 0, "a rotation of {} values", size);
  for (; odd_ % 2 == 0; odd_ /= 2) power_ *= 2;
  uint64_t state = seed;
  const double scale = 1 / std::sqrt(static_cast<double>(power_));
  for (int64_t i = 0; i < size; ++i) signs_.push_back(static_cast<float>(next(state) >> 63 != 0 ? scale : -scale));
  for (const double v : orthogonal(static_cast<size_t>(odd_), state)) mix_.push_back(static_cast<float>(v));
  if (odd_ == 1) mix_[0] = 1;
}

void Rotation::row(float* x) const { columns(x, 1, 1); }

// Value i · odd + j is (i, j) of [power, odd]: Hadamard along i, the mix along j.
void Rotation::columns(float* w, int64_t cols, int64_t stride) const {
  for (int64_t i = 0; i < size_; ++i)
    for (int64_t c = 0; c < cols; ++c) w[i * stride + c] *= signs_[static_cast<size_t>(i)];
  for (int64_t half = odd_; half < size_; half *= 2) {
    for (int64_t begin = 0; begin < size_; begin += 2 * half) {
      for (int64_t i = begin; i < begin + half; ++i) {
        float *a = w + i * stride, *b = w + (i + half) * stride;
        for (int64_t c = 0; c < cols; ++c) {
          const float x = a[c], y = b[c];
          a[c] = x + y;
          b[c] = x - y;
        }
      }
    }
  }
  if (odd_ == 1) return;
  std::vector<float> mixed(static_cast<size_t>(odd_ * cols));
  for (int64_t begin = 0; begin < size_; begin += odd_) {
    std::fill(mixed.begin(), mixed.end(), 0.0f);
    for (int64_t j = 0; j < odd_; ++j) {
      const float* from = w + (begin + j) * stride;
      for (int64_t k = 0; k < odd_; ++k) {
        const float m = mix_[static_cast<size_t>(j * odd_ + k)];
        float* to = mixed.data() + k * cols;
        for (int64_t c = 0; c < cols; ++c) to[c] += from[c] * m;
      }
    }
    for (int64_t k = 0; k < odd_; ++k)
      for (int64_t c = 0; c < cols; ++c) w[(begin + k) * stride + c] = mixed[static_cast<size_t>(k * cols + c)];
  }
}

}  // namespace ingot
