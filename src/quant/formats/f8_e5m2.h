// F8_E5M2: an 8-bit float, the upper byte of an IEEE half ("float8_e5m2").
//
//   byte  0   bit 7 sign | bits 6..2 exponent, bias 15 | bits 1..0 mantissa
//
// The largest finite value is 57344. The scale lies beside the data (Weight::scale).
#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"

namespace ingot {

struct F8_E5M2 {
  static constexpr const char* kName = "f8_e5m2";
  static constexpr int kGgufType = -1;
  static constexpr int64_t kBlock = 1;
  static constexpr int64_t kBytes = 1;

  INGOT_HD static void decode(const uint8_t* in, float* out) {
    const uint8_t half[2] = {0, *in};
    *out = load_f16(half);
  }

  // Rounds to nearest even. What is finite stays finite: beyond ±57344 it becomes ±57344. Infinity and
  // NaN stay what they are.
  static void encode(const float* in, uint8_t* out) {
    const uint32_t bits = std::bit_cast<uint32_t>(*in);
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t code;
    if (magnitude >= 0x7f800000u) {
      code = magnitude == 0x7f800000u ? 0x7c : 0x7f;
    } else if (magnitude >= 0x47600000u) {  // 57344
      code = 0x7b;
    } else if (magnitude < 0x38800000u) {  // 2^-14, the smallest normal: 2^7 has a last place of 2^-16
      code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p7f) - 0x43000000u;
    } else {
      code = ((magnitude + 0xfffffu + ((magnitude >> 21) & 1u)) >> 21) - (112u << 2);
    }
    *out = static_cast<uint8_t>(code | (bits >> 31 << 7));
  }
};

}  // namespace ingot
