// Seeded numbers for tests.
#pragma once

#include <cmath>
#include <cstdint>

namespace ingot::test {

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, n). REQUIRES: n > 0.
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  // About normal (the sum of four uniforms, variance 1).
  float normal() {
    const double sum = uniform() + uniform() + uniform() + uniform();
    return static_cast<float>((sum - 2) * std::sqrt(3.0));
  }
  // Normal, and one in 64 of them 50 times as large: the outlier channels of real activations.
  float outlier() {
    const float value = normal();
    return below(64) == 0 ? 50 * value : value;
  }

 private:
  uint64_t state_;
};

}  // namespace ingot::test
