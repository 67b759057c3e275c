// The 12 bytes of scales of Q4_K and Q5_K: eight pairs of a 6-bit scale (capitals, sub-blocks A…H) and
// a 6-bit min (small letters). Bits from the highest:
//
//   byte  0 EEAAAAAA   1 FFBBBBBB   2 GGCCCCCC   3 HHDDDDDD
//         4 eeaaaaaa   5 ffbbbbbb   6 ggcccccc   7 hhdddddd
//         8 eeeeEEEE   9 ffffFFFF  10 ggggGGGG  11 hhhhHHHH
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace ingot {

INGOT_HD inline void unpack_k_scales(const uint8_t* in, uint8_t* scale, uint8_t* min) {
  for (int j = 0; j < 4; ++j) {
    scale[j] = in[j] & 63;
    min[j] = in[j + 4] & 63;
    scale[j + 4] = static_cast<uint8_t>((in[j + 8] & 15) | ((in[j] >> 6) << 4));
    min[j + 4] = static_cast<uint8_t>((in[j + 8] >> 4) | ((in[j + 4] >> 6) << 4));
  }
}

inline void pack_k_scales(const uint8_t* scale, const uint8_t* min, uint8_t* out) {
  for (int j = 0; j < 4; ++j) {
    out[j] = static_cast<uint8_t>(scale[j] | ((scale[j + 4] >> 4) << 6));
    out[j + 4] = static_cast<uint8_t>(min[j] | ((min[j + 4] >> 4) << 6));
    out[j + 8] = static_cast<uint8_t>((scale[j + 4] & 15) | ((min[j + 4] & 15) << 4));
  }
}

}  // namespace ingot
