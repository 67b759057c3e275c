// INT4: 4 bits, a scale for each 128 values of a row; the last group is shorter where the row is no multiple of 128.
// value = d · (q − 8). Not a list of blocks: a row is decoded as a whole.
//
//   each group  bytes 0..1   d, f16
//               then, for each 32 of its values, 16 bytes: byte i has q of value i in its low nibble, of i + 16 in its
//               high one
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"
#include "quant/fit.h"

namespace ingot {

struct INT4 {
  static constexpr const char* kName = "int4";
  static constexpr int kGgufType = -1;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 16;  // beside the group's head
  static constexpr bool kWholeRows = true;
  static constexpr int64_t kGroup = 128;
  static constexpr int64_t kHead = 2;

  static int64_t row_bytes(int64_t n) { return n / kBlock * kBytes + (n + kGroup - 1) / kGroup * kHead; }

  // The block of kBlock values from value k on, of a row that begins at `in`.
  INGOT_HD static void decode_block(const uint8_t* in, int64_t k, float* out) {
    const uint8_t* head = in + k / kGroup * (kHead + kGroup / kBlock * kBytes);
    const float d = load_f16(head);
    const uint8_t* q = head + kHead + k % kGroup / kBlock * kBytes;
    for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((q[i] & 15) - 8);
    for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
  }

  static void decode_row(const uint8_t* __restrict in, float* __restrict out, int64_t n) {
    float d = 0;
    for (int64_t k = 0; k < n; k += kBlock, in += kBytes, out += kBlock) {
      if (k % kGroup == 0) {
        d = load_f16(in);
        in += kHead;
      }
      for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((in[i] & 15) - 8);
      for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>((in[i] >> 4) - 8);
    }
  }

  static void encode_row(const float* in, uint8_t* out, int64_t n, const float* importance = nullptr) {
    float inverse = 0;
    for (int64_t k = 0; k < n; k += kBlock, in += kBlock, out += kBytes) {
      if (k % kGroup == 0) {
        const auto size = static_cast<size_t>(n - k < kGroup ? n - k : kGroup);
        store_f16(fit_scale({in, size}, importance ? importance + k : nullptr, IntGrid{-8, 7}), out);
        inverse = inverse_or_zero(load_f16(out));
        out += kHead;
      }
      for (int i = 0; i < 16; ++i) {
        const int low = round_clamp(in[i] * inverse, -8, 7) + 8, high = round_clamp(in[i + 16] * inverse, -8, 7) + 8;
        out[i] = static_cast<uint8_t>(low | (high << 4));
      }
    }
  }
};

}  // namespace ingot
