// NVFP4: 64 values of 4-bit floats (E2M1) with an 8-bit float for each 16. value = E4M3(s) · E2M1(q), times a scale of
// the tensor that lies beside the data (Weight::scale).
//
//   bytes  0..3    s of values 0..15, 16..31, 32..47, 48..63: E4M3 without its sign; 0x7f, no number, stands for 0
//          4..35   for each 16 values 8 bytes: byte i has q of value i in its low nibble, of i + 8 in its high one
//
// q as in MXFP4; the code computes with doubled magnitudes and half of the scale.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "quant/formats/f8_e4m3.h"
#include "quant/formats/mxfp4.h"

namespace ingot {

struct NVFP4 {
  static constexpr const char* kName = "nvfp4";
  static constexpr int kGgufType = 40;
  static constexpr int64_t kBlock = 64;
  static constexpr int64_t kBytes = 36;
  static constexpr int64_t kGroup = 16;
  static constexpr int kGroups = 4;  // of a block

  // Half of what a scale's byte stands for.
  INGOT_HD static float half_scale(uint8_t s) {
    const auto magnitude = static_cast<uint8_t>(s & 0x7f);
    float value;
    F8_E4M3::decode(&magnitude, &value);
    return magnitude == 0x7f ? 0.0f : 0.5f * value;
  }

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    constexpr auto table = MXFP4::kTable;
    for (int g = 0; g < kGroups; ++g) {
      const float d = half_scale(in[g]);
      const uint8_t* q = in + kGroups + 8 * g;
      float scaled[16];
      for (size_t i = 0; i < 16; ++i) scaled[i] = d * static_cast<float>(table[i]);
      for (int i = 0; i < 8; ++i) out[16 * g + i] = scaled[q[i] & 15];
      for (int i = 0; i < 8; ++i) out[16 * g + 8 + i] = scaled[q[i] >> 4];
    }
  }

  // The scale of least squared error among those that give the largest value a magnitude of 4 to 6, and one that cuts
  // it.
  static void encode(const float* in, uint8_t* out, const float* importance = nullptr) {
    for (int g = 0; g < kGroups; ++g) {
      const float* x = in + kGroup * g;
      const float* weight = importance == nullptr ? nullptr : importance + kGroup * g;
      float largest = 0, used = 0;
      for (int i = 0; i < kGroup; ++i) largest = std::abs(x[i]) > largest ? std::abs(x[i]) : largest;
      for (int i = 0; i < kGroup && weight != nullptr; ++i) used += weight[i];
      if (!(used > 0)) weight = nullptr;  // columns that were never met
      const int most = code_of(largest / 4.0f), least = code_of(largest / 6.0f);
      int best = least;
      double best_error = squared_error(x, weight, least);
      for (int s = least > 0 ? least - 1 : 0; s <= most; ++s) {
        const double error = squared_error(x, weight, s);
        if (error < best_error) best = s, best_error = error;
      }
      const float d = half_scale(static_cast<uint8_t>(best));
      out[g] = static_cast<uint8_t>(best);
      uint8_t* q = out + kGroups + 8 * g;
      for (int i = 0; i < 8; ++i) q[i] = static_cast<uint8_t>(nearest(x[i], d) | (nearest(x[i + 8], d) << 4));
    }
  }

 private:
  static int code_of(float scale) {
    uint8_t code;
    F8_E4M3::encode(&scale, &code);
    return code >= 0x7f ? 0x7e : code;
  }
  static int nearest(float x, float d) { return d > 0 ? MXFP4::nearest(x, d) : 0; }
  static double squared_error(const float* in, const float* importance, int s) {
    const float d = half_scale(static_cast<uint8_t>(s));
    double sum = 0;
    for (int i = 0; i < kGroup; ++i) {
      const float value = d * static_cast<float>(MXFP4::kTable[static_cast<size_t>(nearest(in[i], d))]);
      const double error = static_cast<double>(in[i]) - static_cast<double>(value);
      sum += (importance ? static_cast<double>(importance[i]) : 1.0) * error * error;
    }
    return sum;
  }
};

}  // namespace ingot
