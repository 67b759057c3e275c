// Q4_K: 256 values of 4 bits in 8 sub-blocks of 32, each with a 6-bit scale and a 6-bit min.
// value = (d · scale) · q − dmin · min.
//
//   bytes   0..1    d, f16
//           2..3    dmin, f16
//           4..15   scales and mins, see quant/k_scales.h
//          16..143  32 bytes for each pair of sub-blocks 2p, 2p + 1: low nibble of byte i is q of value
//                   i of sub-block 2p, high nibble of value i of sub-block 2p + 1
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"
#include "quant/k_scales.h"

namespace ingot {

struct Q4_K {
  static constexpr const char* kName = "q4_k";
  static constexpr int kGgufType = 12;
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kBytes = 144;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const float dmin = load_f16(in + 2);
    uint8_t scale[8], min[8];
    unpack_k_scales(in + 4, scale, min);
    const uint8_t* q = in + 16;
    for (int p = 0; p < 4; ++p) {
      const float scale_a = d * static_cast<float>(scale[2 * p]);
      const float min_a = dmin * static_cast<float>(min[2 * p]);
      const float scale_b = d * static_cast<float>(scale[2 * p + 1]);
      const float min_b = dmin * static_cast<float>(min[2 * p + 1]);
      for (int i = 0; i < 32; ++i) out[i] = scale_a * static_cast<float>(q[i] & 15) - min_a;
      for (int i = 0; i < 32; ++i) out[i + 32] = scale_b * static_cast<float>(q[i] >> 4) - min_b;
      q += 32;
      out += 64;
    }
  }

  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    const AffineBlock block = fit_affine_block({in, kBlock}, importance, 32, 15, 63);
    store_f16(block.d, out);
    store_f16(block.dmin, out + 2);
    pack_k_scales(block.scale, block.min, out + 4);
    for (int p = 0; p < 4; ++p) {
      const uint8_t* q = block.q + 64 * p;
      for (int i = 0; i < 32; ++i) out[16 + 32 * p + i] = static_cast<uint8_t>(q[i] | (q[i + 32] << 4));
    }
  }
};

}  // namespace ingot
