// Q5_K: 256 values of 5 bits in 8 sub-blocks of 32, each with a 6-bit scale and a 6-bit min.
// value = (d · scale) · q − dmin · min.
//
//   bytes   0..1    d, f16
//           2..3    dmin, f16
//           4..15   scales and mins, see quant/k_scales.h
//          16..47   bit j of byte i: bit 4 of q of value i of sub-block j
//          48..175  32 bytes for each pair of sub-blocks 2p, 2p + 1: low nibble of byte i is bits 0..3
//                   of q of value i of sub-block 2p, high nibble of value i of sub-block 2p + 1
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"
#include "quant/k_scales.h"

namespace ingot {

struct Q5_K {
  static constexpr const char* kName = "q5_k";
  static constexpr int kGgufType = 13;
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kBytes = 176;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const float dmin = load_f16(in + 2);
    uint8_t scale[8], min[8];
    unpack_k_scales(in + 4, scale, min);
    const uint8_t* high = in + 16;
    const uint8_t* q = in + 48;
    for (int j = 0; j < 8; ++j) {
      const float sub_scale = d * static_cast<float>(scale[j]);
      const float sub_min = dmin * static_cast<float>(min[j]);
      const int shift = 4 * (j % 2);
      for (int i = 0; i < 32; ++i) {
        const int value = ((q[i] >> shift) & 15) | (((high[i] >> j) & 1) << 4);
        out[i] = sub_scale * static_cast<float>(value) - sub_min;
      }
      q += 32 * (j % 2);
      out += 32;
    }
  }

  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    const AffineBlock block = fit_affine_block({in, kBlock}, importance, 32, 31, 63);
    store_f16(block.d, out);
    store_f16(block.dmin, out + 2);
    pack_k_scales(block.scale, block.min, out + 4);
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int j = 0; j < 8; ++j) high |= (block.q[32 * j + i] >> 4) << j;
      out[16 + i] = static_cast<uint8_t>(high);
    }
    for (int p = 0; p < 4; ++p) {
      const uint8_t* q = block.q + 64 * p;
      for (int i = 0; i < 32; ++i) out[48 + 32 * p + i] = static_cast<uint8_t>((q[i] & 15) | ((q[i + 32] & 15) << 4));
    }
  }
};

}  // namespace ingot
