// IQ4_XS: 256 values of 4 bits that index the table of IQ4_NL, in 8 sub-blocks of 32, each with a 6-bit
// scale. value = (d · (scale − 32)) · table[q].
//
//   bytes  0..1    d, f16
//          2..3    u16: bits 2j, 2j+1 are bits 4, 5 of the scale of sub-block j
//          4..7    byte j: low nibble = bits 0..3 of the scale of sub-block 2j, high nibble of 2j + 1
//          8..135  16 bytes for each sub-block: low nibble of byte i is q of value i, high of i + 16
#pragma once

#include <cstdint>
#include <cstring>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"
#include "quant/formats/iq4_nl.h"

namespace ingot {

struct IQ4_XS {
  static constexpr const char* kName = "iq4_xs";
  static constexpr int kGgufType = 23;
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kBytes = 136;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const int high = load_u16(in + 2);
    constexpr auto table = IQ4_NL::kTable;
    for (int j = 0; j < 8; ++j) {
      const int low = (in[4 + j / 2] >> (4 * (j % 2))) & 15;
      const float scale = d * static_cast<float>((low | (((high >> (2 * j)) & 3) << 4)) - 32);
      const uint8_t* q = in + 8 + 16 * j;
      float scaled[16];
      for (size_t i = 0; i < 16; ++i) scaled[i] = scale * static_cast<float>(table[i]);
      for (int i = 0; i < 16; ++i) out[i] = scaled[q[i] & 15];
      for (int i = 0; i < 16; ++i) out[i + 16] = scaled[q[i] >> 4];
      out += 32;
    }
  }

  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    const ScaledBlock block = fit_scaled_block({in, kBlock}, importance, 32, IQ4_NL::kCodebook, IntGrid{-32, 31});
    int high = 0;
    std::memset(out, 0, 8);
    for (int j = 0; j < 8; ++j) {
      const int scale = block.scale[j] + 32;
      out[4 + j / 2] = static_cast<uint8_t>(out[4 + j / 2] | ((scale & 15) << (4 * (j % 2))));
      high |= (scale >> 4) << (2 * j);
      const int8_t* q = block.q + 32 * j;
      for (int i = 0; i < 16; ++i) out[8 + 16 * j + i] = static_cast<uint8_t>(q[i] | (q[i + 16] << 4));
    }
    store_f16(block.d, out);
    store_u16(static_cast<uint16_t>(high), out + 2);
  }
};

}  // namespace ingot
