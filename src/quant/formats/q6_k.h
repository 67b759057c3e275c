// Q6_K: 256 values of 6 bits in 16 sub-blocks of 16, each with an 8-bit scale. q is in 0…63.
// value = (d · scale) · (q − 32).
//
//   bytes    0..127  bits 0..3 of q, 64 bytes for each half of 128 values. In a half, the low nibble of
//                    byte i belongs to value i, the high nibble to value i + 64
//          128..191  bits 4, 5 of q, 32 bytes for each half: bits 2s, 2s+1 of byte i for value 32s + i
//          192..207  scales of sub-blocks 0..15, int8
//          208..209  d, f16
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct Q6_K {
  static constexpr const char* kName = "q6_k";
  static constexpr int kGgufType = 14;
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kBytes = 210;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in + 208);
    for (int half = 0; half < 2; ++half) {
      for (int s = 0; s < 4; ++s) {
        const uint8_t* low = in + 64 * half + 32 * (s % 2);
        const uint8_t* high = in + 128 + 32 * half;
        const int shift = 4 * (s / 2);
        int8_t q[32];
        for (int i = 0; i < 32; ++i) {
          q[i] = static_cast<int8_t>((((low[i] >> shift) & 15) | (((high[i] >> (2 * s)) & 3) << 4)) - 32);
        }
        const uint8_t* scales = in + 192 + 8 * half + 2 * s;
        const float scale_a = d * static_cast<float>(static_cast<int8_t>(scales[0]));
        const float scale_b = d * static_cast<float>(static_cast<int8_t>(scales[1]));
        for (int i = 0; i < 16; ++i) out[i] = scale_a * static_cast<float>(q[i]);
        for (int i = 16; i < 32; ++i) out[i] = scale_b * static_cast<float>(q[i]);
        out += 32;
      }
    }
  }

  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    const ScaledBlock block = fit_scaled_block({in, kBlock}, importance, 16, IntGrid{-32, 31}, IntGrid{-128, 127});
    for (int half = 0; half < 2; ++half) {
      uint8_t q[128];
      for (int i = 0; i < 128; ++i) q[i] = static_cast<uint8_t>(block.q[128 * half + i] + 32);
      for (int i = 0; i < 64; ++i) out[64 * half + i] = static_cast<uint8_t>((q[i] & 15) | ((q[i + 64] & 15) << 4));
      for (int i = 0; i < 32; ++i) {
        out[128 + 32 * half + i] = static_cast<uint8_t>((q[i] >> 4) | ((q[i + 32] >> 4) << 2) |
                                                        ((q[i + 64] >> 4) << 4) | ((q[i + 96] >> 4) << 6));
      }
    }
    for (int j = 0; j < 16; ++j) out[192 + j] = static_cast<uint8_t>(block.scale[j]);
    store_f16(block.d, out + 208);
  }
};

}  // namespace ingot
