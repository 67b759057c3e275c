// Q4_0: 32 values of 4 bits, one scale. value = d · (q − 8).
//
//   bytes  0..1    d, f16
//          2..17   byte i: low nibble q of value i, high nibble q of value i + 16
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct Q4_0 {
  static constexpr const char* kName = "q4_0";
  static constexpr int kGgufType = 2;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 18;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const uint8_t* q = in + 2;
    for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((q[i] & 15) - 8);
    for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
  }

  // The value of largest magnitude becomes q = 0, the side of the range with one step more; with importances the scale
  // of least weighted error is searched.
  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    float d = 0;
    if (importance) {
      d = f16_to_f32(f32_to_f16(fit_scale({in, kBlock}, importance, IntGrid{-8, 7})));
    } else {
      float largest = 0;
      for (int i = 0; i < kBlock; ++i) largest = std::abs(in[i]) > std::abs(largest) ? in[i] : largest;
      d = largest / -8.0f;
    }
    const float inverse = inverse_or_zero(d);
    store_f16(d, out);
    for (int i = 0; i < 16; ++i) {
      const uint8_t low = trunc_clamp(in[i] * inverse + 8.5f, 15);
      const uint8_t high = trunc_clamp(in[i + 16] * inverse + 8.5f, 15);
      out[2 + i] = static_cast<uint8_t>(low | (high << 4));
    }
  }
};

}  // namespace ingot
