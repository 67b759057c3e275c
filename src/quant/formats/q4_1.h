// Q4_1: 32 values of 4 bits, scale and minimum. value = d · q + m.
//
//   bytes  0..1    d, f16
//          2..3    m, f16
//          4..19   byte i: low nibble q of value i, high nibble q of value i + 16
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct Q4_1 {
  static constexpr const char* kName = "q4_1";
  static constexpr int kGgufType = 3;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 20;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const float m = load_f16(in + 2);
    const uint8_t* q = in + 4;
    for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(q[i] & 15) + m;
    for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
  }

  // From the least value to the largest; with importances the line of least weighted error.
  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    float lo = in[0], d = 0;
    if (importance) {
      const Line line = fit_line({in, kBlock}, importance, 15);
      d = f16_to_f32(f32_to_f16(line.scale));
      lo = f16_to_f32(f32_to_f16(line.base));
    } else {
      float hi = in[0];
      for (int i = 1; i < kBlock; ++i) {
        lo = in[i] < lo ? in[i] : lo;
        hi = in[i] > hi ? in[i] : hi;
      }
      d = (hi - lo) / 15.0f;
    }
    const float inverse = inverse_or_zero(d);
    store_f16(d, out);
    store_f16(lo, out + 2);
    for (int i = 0; i < 16; ++i) {
      const uint8_t low = trunc_clamp((in[i] - lo) * inverse + 0.5f, 15);
      const uint8_t high = trunc_clamp((in[i + 16] - lo) * inverse + 0.5f, 15);
      out[4 + i] = static_cast<uint8_t>(low | (high << 4));
    }
  }
};

}  // namespace ingot
