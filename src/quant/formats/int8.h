// INT8: 8 bits, one scale for a row (an output channel). value = d · q. Not a list of blocks: a row is decoded as a
// whole.
//
//   bytes  0..3   d, f32
//          4..    q of value i, int8
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "quant/fields.h"

namespace ingot {

struct INT8 {
  static constexpr const char* kName = "int8";
  static constexpr int kGgufType = -1;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 32;  // beside the row's head
  static constexpr bool kWholeRows = true;
  static constexpr int64_t kHead = 4;

  static int64_t row_bytes(int64_t n) { return n == 0 ? 0 : n + kHead; }
  INGOT_HD static float scale(const uint8_t* in) {
    return std::bit_cast<float>(static_cast<uint32_t>(load_u16(in)) | static_cast<uint32_t>(load_u16(in + 2)) << 16);
  }

  // The block of kBlock values from value k on, of a row that begins at `in`.
  INGOT_HD static void decode_block(const uint8_t* in, int64_t k, float* out) {
    const float d = scale(in);
    for (int64_t i = k; i < k + kBlock; ++i) *out++ = d * static_cast<float>(static_cast<int8_t>(in[kHead + i]));
  }

  static void decode_row(const uint8_t* __restrict in, float* __restrict out, int64_t n) {
    if (n == 0) return;
    const float d = scale(in);
    for (int64_t i = 0; i < n; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(in[kHead + i]));
  }

  static void encode_row(const float* in, uint8_t* out, int64_t n) {
    if (n == 0) return;
    float largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::abs(in[i]) > largest ? std::abs(in[i]) : largest;
    // 16 significant bits, rounded up: 127 · d is exact, so that what was decoded is encoded again without loss.
    const uint32_t bits = (std::bit_cast<uint32_t>(largest / 127.0f) + 0xffu) & ~0xffu;
    const float d = std::bit_cast<float>(bits), inverse = inverse_or_zero(d);
    store_u32(bits, out);
    for (int64_t i = 0; i < n; ++i) out[kHead + i] = static_cast<uint8_t>(round_clamp(in[i] * inverse, -127, 127));
  }
};

}  // namespace ingot
