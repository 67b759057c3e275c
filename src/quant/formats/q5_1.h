// Q5_1: 32 values of 5 bits, scale and minimum. value = d · q + m.
//
//   bytes  0..1    d, f16
//          2..3    m, f16
//          4..7    u32: bit i is bit 4 of q of value i
//          8..23   byte i: low nibble = bits 0..3 of q of value i, high nibble of value i + 16
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct Q5_1 {
  static constexpr const char* kName = "q5_1";
  static constexpr int kGgufType = 7;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 24;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const float m = load_f16(in + 2);
    const uint8_t* q = in + 8;
    // Through bytes in two short loops and one of 32: the compiler vectorizes each.
    uint8_t low[32], high[32];
    spread_bits(in + 4, high);
    for (int i = 0; i < 16; ++i) low[i] = q[i] & 15;
    for (int i = 0; i < 16; ++i) low[i + 16] = q[i] >> 4;
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(low[i] | high[i]) + m;
  }

  // From the least value to the largest; with importances the line of least weighted error.
  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    float lo = in[0], d = 0;
    if (importance) {
      const Line line = fit_line({in, kBlock}, importance, 31);
      d = f16_to_f32(f32_to_f16(line.scale));
      lo = f16_to_f32(f32_to_f16(line.base));
    } else {
      float hi = in[0];
      for (int i = 1; i < kBlock; ++i) {
        lo = in[i] < lo ? in[i] : lo;
        hi = in[i] > hi ? in[i] : hi;
      }
      d = (hi - lo) / 31.0f;
    }
    const float inverse = inverse_or_zero(d);
    uint32_t high = 0;
    for (int i = 0; i < 16; ++i) {
      const uint32_t a = trunc_clamp((in[i] - lo) * inverse + 0.5f, 31);
      const uint32_t b = trunc_clamp((in[i + 16] - lo) * inverse + 0.5f, 31);
      out[8 + i] = static_cast<uint8_t>((a & 15) | ((b & 15) << 4));
      high |= ((a >> 4) << i) | ((b >> 4) << (i + 16));
    }
    store_f16(d, out);
    store_f16(lo, out + 2);
    store_u32(high, out + 4);
  }
};

}  // namespace ingot
