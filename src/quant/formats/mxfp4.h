// MXFP4: 32 values of 4-bit floats (E2M1) with one power of two. value = 2^(e − 127) · E2M1(q).
//
//   bytes  0       e, the exponent with bias 127 (E8M0)
//          1..16   byte i: low nibble q of value i, high nibble q of value i + 16
//
// q: bit 3 sign, magnitudes 0 0.5 1 1.5 2 3 4 6. The code computes with doubled magnitudes and half of
// the power of two; q = 8, minus zero, decodes to plus zero.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"

namespace ingot {

struct MXFP4 {
  static constexpr const char* kName = "mxfp4";
  static constexpr int kGgufType = 39;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 17;

  static constexpr std::array<int8_t, 16> kTable = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

  // 2^(e − 128); the two smallest are subnormal floats.
  INGOT_HD static float half_power(int e) {
    const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
    return std::bit_cast<float>(bits);
  }

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = half_power(in[0]);
    const uint8_t* q = in + 1;
    constexpr auto table = kTable;
    float scaled[16];
    for (size_t i = 0; i < 16; ++i) scaled[i] = d * static_cast<float>(table[i]);
    for (int i = 0; i < 16; ++i) out[i] = scaled[q[i] & 15];
    for (int i = 0; i < 16; ++i) out[i + 16] = scaled[q[i] >> 4];
  }

  // Two exponents are tried and the one of less squared error taken: the one that gives the largest
  // value a magnitude of 4 to 8 (where all above 6 is cut to 6), and the next, which cuts nothing.
  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    float largest = 0;
    for (int i = 0; i < kBlock; ++i) largest = std::abs(in[i]) > largest ? std::abs(in[i]) : largest;
    const int exponent = static_cast<int>(std::bit_cast<uint32_t>(largest) >> 23);  // biased by 127 too
    const int first = exponent > 2 ? exponent - 2 : 0;
    const int second = first < 254 ? first + 1 : first;
    const int e = squared_error(in, importance, second) < squared_error(in, importance, first) ? second : first;
    out[0] = static_cast<uint8_t>(e);
    for (int i = 0; i < 16; ++i) {
      out[1 + i] = static_cast<uint8_t>(nearest(in[i], half_power(e)) | (nearest(in[i + 16], half_power(e)) << 4));
    }
  }

  // The code nearest to x / d; of two equally near the smaller magnitude.
  static int nearest(float x, float d) {
    const float magnitude = std::abs(x) / d;
    int code = 0;
    for (const float border : {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f}) code += magnitude > border ? 1 : 0;
    return code != 0 && x < 0.0f ? code + 8 : code;
  }

 private:
  static double squared_error(const float* in, const float* importance, int e) {
    const float d = half_power(e);
    double sum = 0;
    for (int i = 0; i < kBlock; ++i) {
      const float value = d * static_cast<float>(kTable[static_cast<size_t>(nearest(in[i], d))]);
      const double error = static_cast<double>(in[i]) - static_cast<double>(value);
      sum += (importance ? static_cast<double>(importance[i]) : 1.0) * error * error;
    }
    return sum;
  }
};

}  // namespace ingot
