// IQ4_NL: 32 values of 4 bits that index a table of uneven steps, one scale. value = d · table[q].
//
//   bytes  0..1    d, f16
//          2..17   byte i: low nibble q of value i, high nibble q of value i + 16
#pragma once

#include <array>
#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct IQ4_NL {
  static constexpr const char* kName = "iq4_nl";
  static constexpr int kGgufType = 20;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 18;

  static constexpr std::array<int8_t, 16> kTable = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
  static constexpr Codebook kCodebook{kTable};

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const uint8_t* q = in + 2;
    constexpr auto table = kTable;  // its own copy, for devices
    float scaled[16];               // 16 products, then 32 loads: half of the multiplications
    for (size_t i = 0; i < 16; ++i) scaled[i] = d * static_cast<float>(table[i]);
    for (int i = 0; i < 16; ++i) out[i] = scaled[q[i] & 15];
    for (int i = 0; i < 16; ++i) out[i + 16] = scaled[q[i] >> 4];
  }

  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    const float d = f16_to_f32(f32_to_f16(fit_scale({in, kBlock}, importance, kCodebook)));
    const float inverse = inverse_or_zero(d);
    store_f16(d, out);
    for (int i = 0; i < 16; ++i) {
      out[2 + i] = static_cast<uint8_t>(kCodebook.code(in[i] * inverse) | (kCodebook.code(in[i + 16] * inverse) << 4));
    }
  }
};

}  // namespace ingot
