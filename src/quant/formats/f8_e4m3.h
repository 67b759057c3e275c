// F8_E4M3: an 8-bit float without infinities, as Hugging Face files store it ("float8_e4m3fn").
//
//   byte  0   bit 7 sign | bits 6..3 exponent, bias 7 | bits 2..0 mantissa
//
// Exponent 0 is subnormal (mantissa · 2^-9); 0x7f and 0xff are NaN; the largest value is 448. The scale
// lies beside the data (Weight::scale).
#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace ingot {

struct F8_E4M3 {
  static constexpr const char* kName = "f8_e4m3";
  static constexpr int kGgufType = -1;
  static constexpr int64_t kBlock = 1;
  static constexpr int64_t kBytes = 1;

  INGOT_HD static void decode(const uint8_t* in, float* out) {
    // Masks in place of branches, as in load_f16: vectorized.
    const int32_t magnitude = *in & 0x7f;
    const int32_t subnormal = -static_cast<int32_t>(magnitude < 8);
    const int32_t nan = -static_cast<int32_t>(magnitude == 0x7f);
    const int32_t bits = (magnitude << 20) + (120 << 23) + (subnormal & (1 << 23));
    const float value = std::bit_cast<float>(bits) - std::bit_cast<float>(subnormal & 0x3c800000);
    const uint32_t sign = static_cast<uint32_t>(*in & 0x80) << 24;
    *out = std::bit_cast<float>(std::bit_cast<uint32_t>(value) | static_cast<uint32_t>(nan & 0x7ff00000) | sign);
  }

  // Rounds to nearest even. What is finite stays finite: beyond ±448 it becomes ±448, because one NaN
  // in a weight spoils every output. Infinity and NaN become NaN.
  INGOT_HD static void encode(const float* in, uint8_t* out) {
    const uint32_t bits = std::bit_cast<uint32_t>(*in);
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t code;
    if (magnitude >= 0x7f800000u) {
      code = 0x7f;
    } else if (magnitude >= 0x43e00000u) {  // 448
      code = 0x7e;
    } else if (magnitude < 0x3c800000u) {  // 2^-6, the smallest normal: 2^14 has a last place of 2^-9
      code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
    } else {
      code = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
    }
    *out = static_cast<uint8_t>(code | (bits >> 31 << 7));
  }
};

}  // namespace ingot
