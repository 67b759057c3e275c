#include "quant/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ingot {

int64_t first_not_finite(std::span<const float> values) {
  // By the bits: an exponent of ones is infinity or no number. A sum of floats would take four times as long.
  uint32_t largest = 0;
  for (const float v : values) largest = std::max(largest, std::bit_cast<uint32_t>(v) & 0x7fffffffu);
  if (largest < 0x7f800000u) return -1;
  return std::ranges::find_if(values, [](float v) { return !std::isfinite(v); }) - values.begin();
}

}  // namespace ingot
