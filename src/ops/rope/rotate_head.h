// The rotation of one head. Shared by the CPU versions of Rope and RopeKvWrite, so that they agree bit for bit.
#pragma once

#include <cstdint>

namespace ingot::cpu {

// to = from rotated by `table` (rotary_dim / 2 cosines, then the sines), in place when they are equal.
// Touches the first rotary_dim values alone.
inline void rotate_head(const float* from, float* to, const float* table, int64_t rotary_dim, bool interleaved) {
  const int64_t half = rotary_dim / 2;
  const float* cos = table;
  const float* sin = table + half;
  if (interleaved) {
    for (int64_t i = 0; i < half; ++i) {
      const float a = from[2 * i], b = from[2 * i + 1];
      to[2 * i] = a * cos[i] - b * sin[i];
      to[2 * i + 1] = a * sin[i] + b * cos[i];
    }
  } else {
    for (int64_t i = 0; i < half; ++i) {
      const float a = from[i], b = from[i + half];
      to[i] = a * cos[i] - b * sin[i];
      to[i + half] = a * sin[i] + b * cos[i];
    }
  }
}

}  // namespace ingot::cpu
