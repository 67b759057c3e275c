// Q2_K: 256 values of 2 bits in 16 sub-blocks of 16, each with a 4-bit scale and a 4-bit min.
// value = (d · scale) · q − dmin · min.
//
//   bytes   0..15   byte j: low nibble scale, high nibble min of sub-block j
//          16..79   q: bytes 16..47 hold values 0..127, 48..79 values 128..255. In each half, bits
//                   2s, 2s+1 of byte i are q of value 32s + i
//          80..81   d, f16
//          82..83   dmin, f16
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct Q2_K {
  static constexpr const char* kName = "q2_k";
  static constexpr int kGgufType = 10;
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kBytes = 84;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in + 80);
    const float dmin = load_f16(in + 82);
    for (int half = 0; half < 2; ++half) {
      const uint8_t* q = in + 16 + 32 * half;
      for (int s = 0; s < 4; ++s) {
        for (int part = 0; part < 2; ++part) {
          const uint8_t packed = in[8 * half + 2 * s + part];
          const float scale = d * static_cast<float>(packed & 15);
          const float min = dmin * static_cast<float>(packed >> 4);
          for (int i = 0; i < 16; ++i) out[i] = scale * static_cast<float>((q[16 * part + i] >> (2 * s)) & 3) - min;
          out += 16;
        }
      }
    }
  }

  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    const AffineBlock block = fit_affine_block({in, kBlock}, importance, 16, 3, 15);
    for (int j = 0; j < 16; ++j) out[j] = static_cast<uint8_t>(block.scale[j] | (block.min[j] << 4));
    for (int half = 0; half < 2; ++half) {
      const uint8_t* q = block.q + 128 * half;
      for (int i = 0; i < 32; ++i) {
        out[16 + 32 * half + i] = static_cast<uint8_t>(q[i] | (q[i + 32] << 2) | (q[i + 64] << 4) | (q[i + 96] << 6));
      }
    }
    store_f16(block.d, out + 80);
    store_f16(block.dmin, out + 82);
  }
};

}  // namespace ingot
