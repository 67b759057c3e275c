// INT4_ASYM: 4 bits, a scale and a zero point for each 128 values of a row; the last group is shorter where the row is
// no multiple of 128. value = d · (q − z). Not a list of blocks: a row is decoded as a whole.
//
//   each group  bytes 0..1   d, f16
//               byte  2      z, 0…255; encode() writes 0…15
//               then, for each 32 of its values, 16 bytes: byte i has q of value i in its low nibble, of i + 16 in its
//               high one
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"

namespace ingot {

struct INT4_ASYM {
  static constexpr const char* kName = "int4_asym";
  static constexpr int kGgufType = -1;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 16;  // beside the group's head
  static constexpr bool kWholeRows = true;
  static constexpr int64_t kGroup = 128;
  static constexpr int64_t kHead = 3;

  static int64_t row_bytes(int64_t n) { return n / kBlock * kBytes + (n + kGroup - 1) / kGroup * kHead; }

  // The block of kBlock values from value k on, of a row that begins at `in`.
  INGOT_HD static void decode_block(const uint8_t* in, int64_t k, float* out) {
    const uint8_t* head = in + k / kGroup * (kHead + kGroup / kBlock * kBytes);
    const float d = load_f16(head);
    const int z = head[2];
    const uint8_t* q = head + kHead + k % kGroup / kBlock * kBytes;
    for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((q[i] & 15) - z);
    for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>((q[i] >> 4) - z);
  }

  static void decode_row(const uint8_t* __restrict in, float* __restrict out, int64_t n) {
    float d = 0;
    int z = 0;
    for (int64_t k = 0; k < n; k += kBlock, in += kBytes, out += kBlock) {
      if (k % kGroup == 0) {
        d = load_f16(in);
        z = in[2];
        in += kHead;
      }
      for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((in[i] & 15) - z);
      for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>((in[i] >> 4) - z);
    }
  }

  struct Fit {
    float d;
    int z;
  };
  // The range from the least to the largest value, zero within it, or a part of that range that loses less.
  static Fit fit(const float* in, const float* importance, int64_t n) {
    float lo = 0, hi = 0;
    for (int64_t i = 0; i < n; ++i) {
      lo = in[i] < lo ? in[i] : lo;
      hi = in[i] > hi ? in[i] : hi;
    }
    Fit best{0, 0};
    float least = -1;
    for (int step = 0; step < 12; ++step) {
      const float part = 1.0f - 0.03f * static_cast<float>(step);
      uint8_t half[2];
      store_f16((hi - lo) * part / 15.0f, half);
      const float d = load_f16(half), inverse = inverse_or_zero(d);
      const int z = round_clamp(-lo * part * inverse, 0, 15);
      float error = 0;
      for (int64_t i = 0; i < n; ++i) {
        const float e = in[i] - d * static_cast<float>(code(in[i], inverse, z) - z);
        error += (importance ? importance[i] : 1.0f) * (e * e);
      }
      if (least < 0 || error < least) {
        least = error;
        best = {d, z};
      }
    }
    return best;
  }
  static int code(float x, float inverse, int z) { return round_clamp(x * inverse, -z, 15 - z) + z; }

  static void encode_row(const float* in, uint8_t* out, int64_t n, const float* importance = nullptr) {
    Fit group{0, 0};
    float inverse = 0;
    for (int64_t k = 0; k < n; k += kBlock, in += kBlock, out += kBytes) {
      if (k % kGroup == 0) {
        group = fit(in, importance ? importance + k : nullptr, n - k < kGroup ? n - k : kGroup);
        inverse = inverse_or_zero(group.d);
        store_f16(group.d, out);
        out[2] = static_cast<uint8_t>(group.z);
        out += kHead;
      }
      for (int i = 0; i < 16; ++i) {
        const int low = code(in[i], inverse, group.z), high = code(in[i + 16], inverse, group.z);
        out[i] = static_cast<uint8_t>(low | (high << 4));
      }
    }
  }
};

}  // namespace ingot
