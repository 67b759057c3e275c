// Q8_0: 32 values of 8 bits, one scale. value = q · d.
//
//   bytes  0..1    d, f16
//          2..33   q of value i, int8
#pragma once

#include <bit>
#include <cstdint>

#if defined(__ARM_NEON) && !defined(__CUDACC__)
#include <arm_neon.h>
#endif

#include "base/host_device.h"
#include "quant/fields.h"

namespace ingot {

struct Q8_0 {
  static constexpr const char* kName = "q8_0";
  static constexpr int kGgufType = 8;
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 34;

  INGOT_HD static void decode(const uint8_t* __restrict in, float* __restrict out) {
    const float d = load_f16(in);
    const uint8_t* q = in + 2;
    for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(q[i])) * d;
  }

  static void encode(const float* __restrict in, uint8_t* __restrict out) {
    // By the bits, as a largest float is not found in vectors.
    uint32_t bits = 0;
    for (int i = 0; i < kBlock; ++i) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(in[i]) & 0x7fffffffu;
      bits = magnitude > bits ? magnitude : bits;
    }
    const float d = std::bit_cast<float>(bits) / 127.0f;
    const float inverse = inverse_or_zero(d);
    store_f16(d, out);
    round_away(in, inverse, out + 2);
  }

 private:
  // Half goes away from zero.
#if defined(__ARM_NEON) && !defined(__CUDACC__)
  static void round_away(const float* __restrict in, float inverse, uint8_t* __restrict q) {
    const auto four = [&](int i) { return vqmovn_s32(vcvtaq_s32_f32(vmulq_n_f32(vld1q_f32(in + i), inverse))); };
    for (int i = 0; i < kBlock; i += 16) {
      const int8x8_t low = vqmovn_s16(vcombine_s16(four(i), four(i + 4)));
      const int8x8_t high = vqmovn_s16(vcombine_s16(four(i + 8), four(i + 12)));
      vst1q_u8(q + i, vreinterpretq_u8_s8(vmaxq_s8(vcombine_s8(low, high), vdupq_n_s8(-127))));
    }
  }
#else
  static void round_away(const float* __restrict in, float inverse, uint8_t* __restrict q) {
    for (int i = 0; i < kBlock; ++i) {
      // Adding 1/2 and cutting would round 0.49999997 up: it is the largest below 1/2. Held at 127 by the bits, which
      // takes no care of NaN.
      constexpr int32_t kMost = std::bit_cast<int32_t>(127.0f);
      const int32_t x = std::bit_cast<int32_t>(in[i] * inverse), magnitude = x & 0x7fffffff;
      const int32_t held = magnitude < kMost ? magnitude : kMost, sign = x >> 31;
      const int32_t code = static_cast<int32_t>(std::bit_cast<float>(held) + 0x1.fffffep-2f);
      q[i] = static_cast<uint8_t>((code ^ sign) - sign);
    }
  }
#endif
};

}  // namespace ingot
