// Values of random weights: a hash of a counter, so that any part can be made anywhere, on the host or on a device.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace ingot {

// Encoding is slow for searching formats: 64 different rows repeat, which no kernel can tell.
inline constexpr int64_t kRandomRows = 64;

// SplitMix64: a well-mixed 64-bit value for each counter.
INGOT_HD constexpr uint64_t random_bits(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// The key of expert e where `key` is that of the stack.
INGOT_HD constexpr uint64_t expert_key(uint64_t key, int64_t e) {
  return e == 0 ? key : key + (random_bits(static_cast<uint64_t>(e)) << 20);
}

// Uniform in [-range, range).
INGOT_HD constexpr float random_value(uint64_t key, int64_t row, int64_t col, int64_t cols, float range) {
  const uint64_t counter = key + static_cast<uint64_t>(row % kRandomRows * cols + col);
  return (static_cast<float>(random_bits(counter) >> 40) * 0x1p-23f - 1.0f) * range;
}

}  // namespace ingot
