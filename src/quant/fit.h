// The search for scales when a block is encoded: least squared error over the values, first for each
// sub-block alone, then with the scales as the block stores them. Inputs that are not finite give an
// arbitrary but valid block. Called while weights are compressed; pure functions, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/fields.h"

namespace ingot {

// What a quantized value may be: the integers lo…hi, or the 16 entries of a codebook.
struct IntGrid {
  int lo, hi;
};
struct Codebook {
  std::array<int8_t, 16> values;  // ascending, the first is the one of largest magnitude
  // Index of the entry nearest to what lies between (i − 256) / 2 and the next half. The borders between
  // int8 entries are multiples of 1/2, so this is exact, and much faster than comparing with 15 borders.
  std::array<uint8_t, 512> nearest{};
  std::array<float, 512> nearest_value{};  // the entry itself

  constexpr explicit Codebook(const std::array<int8_t, 16>& ascending) : values(ascending) {
    size_t best = 0;
    for (int i = 0; i < 512; ++i) {
      const int middle = 2 * (i - 256) + 1;  // in quarters, as the distances
      while (best < 15 && distance(4 * values[best + 1], middle) < distance(4 * values[best], middle)) ++best;
      nearest[static_cast<size_t>(i)] = static_cast<uint8_t>(best);
      nearest_value[static_cast<size_t>(i)] = static_cast<float>(values[best]);
    }
  }
  int code(float x) const { return nearest[static_cast<size_t>(round_clamp(x * 2.0f - 0.5f, -256, 255) + 256)]; }

 private:
  static constexpr int distance(int a, int b) { return a > b ? a - b : b - a; }
};

// In all of these `importance` is null, or has a weight ≥ 0 for each value: how much its error counts.

// Scale s of least squared error for x ≈ s · q with q on the grid. May be negative; 0 for all zeros.
// REQUIRES: x.size() is a multiple of 8, at most 128.
float fit_scale(std::span<const float> x, const float* importance, const IntGrid& grid);
float fit_scale(std::span<const float> x, const float* importance, const Codebook& grid);

// The line of least squared error: x ≈ scale · q + base, q in 0…q_max. REQUIRES: as above.
struct Line {
  float scale = 0, base = 0;
};
Line fit_line(std::span<const float> x, const float* importance, int q_max);

// Block of 256 values in equal sub-blocks: value ≈ (d · scale[sub]) · q, with d stored as f16.
struct ScaledBlock {
  float d = 0;
  int8_t scale[16] = {};
  int8_t q[256] = {};  // IntGrid: the value; Codebook: the index
};
// `sub_size` values share a scale in scales.lo…scales.hi. REQUIRES: x.size() is 256, sub_size is 16 or 32.
ScaledBlock fit_scaled_block(std::span<const float> x, const float* importance, size_t sub_size, const IntGrid& grid,
                             const IntGrid& scales);
ScaledBlock fit_scaled_block(std::span<const float> x, const float* importance, size_t sub_size, const Codebook& grid,
                             const IntGrid& scales);

// Block of 256 values in equal sub-blocks: value ≈ (d · scale[sub]) · q − dmin · min[sub], with d and
// dmin stored as f16, q in 0…q_max, scale and min in 0…scale_max.
struct AffineBlock {
  float d = 0, dmin = 0;
  uint8_t scale[16] = {}, min[16] = {};
  uint8_t q[256] = {};
};
// REQUIRES: x.size() is 256, sub_size is 16 or 32.
AffineBlock fit_affine_block(std::span<const float> x, const float* importance, size_t sub_size, int q_max,
                             int scale_max);

}  // namespace ingot
