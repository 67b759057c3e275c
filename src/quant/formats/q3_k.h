// Q3_K: 256 values of 3 bits in 16 sub-blocks of 16, each with a 6-bit scale. q is in −4…3.
// value = (d · (scale − 32)) · q.
//
//   bytes   0..31   bit g of byte i: bit 2 of q + 4 of value 32g + i (q is lowered by 4 where it is 0)
//          32..95   bits 0, 1 of q + 4: bytes 32..63 for values 0..127, 64..95 for 128..255. In each
//                   half, bits 2s, 2s+1 of byte i belong to value 32s + i
//          96..107  scales of sub-blocks 0..15: byte j < 8 has bits 0..3 of scale j (low nibble) and of
//                   scale j + 8; byte 8 + j has bits 4, 5 of scales j, j + 4, j + 8, j + 12, low to high
//         108..109  d, f16
#pragma once

#include <cstdint>
#include <cstring>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct Q3_K {
  static constexpr const char* kName = "q3_k";
  static constexpr int kGgufType = 11;
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kBytes = 110;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in + 108);
    float scale[16];
    for (int j = 0; j < 16; ++j) {
      const int low = (in[96 + j % 8] >> (4 * (j / 8))) & 15;
      const int high = (in[104 + j % 4] >> (2 * (j / 4))) & 3;
      scale[j] = d * static_cast<float>((low | (high << 4)) - 32);
    }
    for (int g = 0; g < 8; ++g) {
      const uint8_t* packed = in + 32 + 32 * (g / 4);
      const int shift = 2 * (g % 4);
      int8_t q[32];
      for (int i = 0; i < 32; ++i) {
        q[i] = static_cast<int8_t>((((packed[i] >> shift) & 3) | (((in[i] >> g) & 1) << 2)) - 4);
      }
      for (int i = 0; i < 16; ++i) out[i] = scale[2 * g] * static_cast<float>(q[i]);
      for (int i = 16; i < 32; ++i) out[i] = scale[2 * g + 1] * static_cast<float>(q[i]);
      out += 32;
    }
  }

  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    const ScaledBlock block = fit_scaled_block({in, kBlock}, importance, 16, IntGrid{-4, 3}, IntGrid{-32, 31});
    std::memset(out, 0, kBytes);
    for (int g = 0; g < 8; ++g) {
      for (int i = 0; i < 32; ++i) {
        const int q = block.q[32 * g + i] + 4;
        out[i] = static_cast<uint8_t>(out[i] | ((q >> 2) << g));
        uint8_t& low = out[32 + 32 * (g / 4) + i];
        low = static_cast<uint8_t>(low | ((q & 3) << (2 * (g % 4))));
      }
    }
    for (int j = 0; j < 16; ++j) {
      const int scale = block.scale[j] + 32;
      uint8_t& low = out[96 + j % 8];
      uint8_t& high = out[104 + j % 4];
      low = static_cast<uint8_t>(low | ((scale & 15) << (4 * (j / 8))));
      high = static_cast<uint8_t>(high | ((scale >> 4) << (2 * (j / 4))));
    }
    store_f16(block.d, out + 108);
  }
};

}  // namespace ingot
