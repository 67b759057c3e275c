// Q5_0: 32 values of 5 bits, one scale. value = d · (q − 16).
//
//   bytes  0..1    d, f16
//          2..5    u32: bit i is bit 4 of q of value i
//          6..21   byte i: low nibble = bits 0..3 of q of value i, high nibble of value i + 16
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct Q5_0 {
  static constexpr const char* kName = "q5_0";
  static constexpr int kGgufType = 6;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 22;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const uint8_t* q = in + 6;
    // Through bytes in two short loops and one of 32: the compiler vectorizes each.
    uint8_t low[32], high[32];
    spread_bits(in + 2, high);
    for (int i = 0; i < 16; ++i) low[i] = q[i] & 15;
    for (int i = 0; i < 16; ++i) low[i + 16] = q[i] >> 4;
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>((low[i] | high[i]) - 16);
  }

  // The value of largest magnitude becomes q = 0, the side of the range with one step more; with importances the scale
  // of least weighted error is searched.
  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    float d = 0;
    if (importance) {
      d = f16_to_f32(f32_to_f16(fit_scale({in, kBlock}, importance, IntGrid{-16, 15})));
    } else {
      float largest = 0;
      for (int i = 0; i < kBlock; ++i) largest = std::abs(in[i]) > std::abs(largest) ? in[i] : largest;
      d = largest / -16.0f;
    }
    const float inverse = inverse_or_zero(d);
    uint32_t high = 0;
    for (int i = 0; i < 16; ++i) {
      const uint32_t a = trunc_clamp(in[i] * inverse + 16.5f, 31);
      const uint32_t b = trunc_clamp(in[i + 16] * inverse + 16.5f, 31);
      out[6 + i] = static_cast<uint8_t>((a & 15) | ((b & 15) << 4));
      high |= ((a >> 4) << i) | ((b >> 4) << (i + 16));
    }
    store_f16(d, out);
    store_u32(high, out + 2);
  }
};

}  // namespace ingot
