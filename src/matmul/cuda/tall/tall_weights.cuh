// Packed weights as operands of wgmma: values, rounded to bf16, in the registers of the lane that holds their codes. A
// scale for each group cannot follow the sums, because the sums of all groups are in flight in the same registers.
#pragma once

#include "matmul/cuda/stream/stream_formats.cuh"

namespace ingot::cuda {

namespace detail {
constexpr uint32_t kOnePair = 0x3f803f80u;
// Twice the bf16 of a small integer or a power of two.
constexpr uint32_t pair_of(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  return bits >> 16 | (bits & 0xffff0000u);
}
}  // namespace detail

// A chunk of 16 rows in a lane's registers.
template <class W>
struct TallChunk {
  using Codes = typename W::Codes;
  using Scales = typename W::Scales;
  uint32_t codes[Codes::kWords];
  typename Scales::Row rows[2];

  __device__ __forceinline__ void load(const std::byte* chunk, int lane) {
    load_words(chunk, lane, codes);
    rows[0] = Scales::load(chunk + W::kScalesAt, lane / 4);
    rows[1] = Scales::load(chunk + W::kScalesAt, lane / 4 + 8);
  }
  // Instruction s of unit u.
  __device__ __forceinline__ void operand(int u, int s, uint32_t (&a)[4]) const {
    exact(u, s, a);
    const int group = (2 * u + s) / W::kGroupSteps;
    // The scales of floats are those of x times 2^kXPower.
    constexpr float kBack = Codes::kIntegers ? power_of_two(kHeld) : power_of_two(-(Codes::kSmall - Codes::kSmall / 2));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float scale = Scales::scale(rows[i], group) * kBack;
      const uint32_t by = pack_bf16(scale, scale);
      if constexpr (Scales::kMins) {
        // scale · code and min are often many times as large as their difference: what bf16 leaves of each is made
        // good.
        const float min = Scales::min(rows[i], group);
        const uint32_t less = pack_bf16(-min, -min);
        const float rest = scale - bf16_value(static_cast<uint16_t>(by)),
                    left = -min - bf16_value(static_cast<uint16_t>(less));
        const uint32_t by_rest = pack_bf16(rest, rest), less_left = pack_bf16(left, left);
#pragma unroll
        for (int p = i; p < 4; p += 2)
          a[p] = fma_pair(fma_pair(a[p], by_rest, less_left), detail::kOnePair, fma_pair(a[p], by, less));
      } else {
        a[i] = multiply_pair(a[i], by);
        a[i + 2] = multiply_pair(a[i + 2], by);
      }
    }
  }

 private:
  // Integers are made normal first, but 2^kHeld too small: bf16 has no factor for all of it.
  static constexpr int kHeld = 13;

  // The codes less their offset, exact: integers of at most 8 bits, or short floats.
  __device__ __forceinline__ void exact(int u, int s, uint32_t (&a)[4]) const {
    Codes::operand(codes, u, s, a);
    if constexpr (Codes::kIntegers) {
      constexpr int kUp = Codes::kSmall - kHeld;
      constexpr uint32_t kEven = detail::pair_of(power_of_two(kUp)),
                         kOdd = detail::pair_of(power_of_two(kUp - Codes::kOdd)),
                         kLess = detail::pair_of(-W::kBias * power_of_two(-kHeld));
#pragma unroll
      for (int p = 0; p < 4; ++p) a[p] = fma_pair(a[p], p % 2 == 0 ? kEven : kOdd, kLess);
    } else {
      constexpr uint32_t kUp = detail::pair_of(power_of_two(Codes::kSmall));
#pragma unroll
      for (int p = 0; p < 4; ++p) a[p] = multiply_pair(a[p], kUp);
    }
  }
};

struct TallWords {
  uint4 words[2];

  __device__ __forceinline__ void load(const std::byte* chunk, int lane) {
    words[0] = *reinterpret_cast<const uint4*>(chunk + lane * 16);
    words[1] = *reinterpret_cast<const uint4*>(chunk + (32 + lane) * 16);
  }
};
template <>
struct TallChunk<StreamBF16> : TallWords {
  __device__ __forceinline__ void operand(int, int s, uint32_t (&a)[4]) const {
    const uint4& v = words[s];
    a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
  }
};
template <>
struct TallChunk<StreamF16> : TallWords {
  __device__ __forceinline__ void operand(int, int s, uint32_t (&a)[4]) const {
    const uint4& v = words[s];
    const uint32_t from[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int p = 0; p < 4; ++p)
      a[p] = pack_bf16(f16_value(static_cast<uint16_t>(from[p])), f16_value(static_cast<uint16_t>(from[p] >> 16)));
  }
};

}  // namespace ingot::cuda
