// The scales of packed weights, behind the codes of a chunk: of its 16 rows, for groups of kGroup columns (0: of the
// whole chunk). A lane loads those of rows g and g + 8, and asks for one group after another:
//   weight = scale · (code − offset) − min
#pragma once

#include "cuda/pairs.cuh"

namespace ingot::cuda {

namespace detail {
__device__ inline uint32_t word_at(const std::byte* at, int i) { return reinterpret_cast<const uint32_t*>(at)[i]; }
__device__ inline float half_of(uint32_t word, int i) { return f16_value(static_cast<uint16_t>(word >> (16 * i))); }
// d times byte i of a word. The byte becomes a float by the bits of kByteBase, whose last place but eight is 1; taken
// off inside the sum it leaves no rounding but the product's. Conversions take the device twice as long.
constexpr float kByteBase = 32768;
__device__ inline float times_byte(uint32_t word, int i, float d, float less) {
  const uint32_t bits = permute_bytes(word, 0x47000000u, 0x7404u | static_cast<uint32_t>(i) << 4);
  return __fmaf_rn(__uint_as_float(bits), d, less);
}
__device__ inline float signed_byte_of(uint32_t word, int i) {
  return static_cast<float>(static_cast<int8_t>(word >> (8 * i)));
}
}  // namespace detail

// [16][U] f16.
template <int U>
struct HalfScales {
  static constexpr int kGroup = 32, kBytes = 16 * U * 2;
  static constexpr bool kMins = false;
  struct Row {
    uint32_t w[U / 2];
  };
  __device__ static Row load(const std::byte* at, int row) {
    Row r;
    if constexpr (U == 4) {
      const uint2 v = *reinterpret_cast<const uint2*>(at + row * 8);
      r.w[0] = v.x, r.w[1] = v.y;
    } else {
      r.w[0] = detail::word_at(at, row);
    }
    return r;
  }
  __device__ static float scale(const Row& r, int g) { return detail::half_of(r.w[g / 2], g % 2); }
  __device__ static float min(const Row&, int) { return 0; }
};

// [16][4] of scale and what is added (the min, negated), both f16.
struct HalfMins {
  static constexpr int kGroup = 32, kBytes = 16 * 4 * 4;
  static constexpr bool kMins = true;
  using Row = uint4;
  __device__ static Row load(const std::byte* at, int row) { return *reinterpret_cast<const uint4*>(at + row * 16); }
  __device__ static uint32_t word(const Row& r, int g) { return g == 0 ? r.x : g == 1 ? r.y : g == 2 ? r.z : r.w; }
  __device__ static float scale(const Row& r, int g) { return detail::half_of(word(r, g), 0); }
  __device__ static float min(const Row& r, int g) { return -detail::half_of(word(r, g), 1); }
};

// [16] f16, one for the chunk.
struct HalfOfChunk {
  static constexpr int kGroup = 0, kBytes = 16 * 2;
  static constexpr bool kMins = false;
  using Row = float;
  __device__ static Row load(const std::byte* at, int row) {
    return f16_value(reinterpret_cast<const uint16_t*>(at)[row]);
  }
  __device__ static float scale(const Row& r, int) { return r; }
  __device__ static float min(const Row&, int) { return 0; }
};

// [16] of scale and zero point, both f16, for the chunk.
struct ZeroOfChunk {
  static constexpr int kGroup = 0, kBytes = 16 * 4;
  static constexpr bool kMins = true;
  struct Row {
    float d, zero;
  };
  __device__ static Row load(const std::byte* at, int row) {
    const uint32_t word = detail::word_at(at, row);
    return {detail::half_of(word, 0), detail::half_of(word, 1)};
  }
  __device__ static float scale(const Row& r, int) { return r.d; }
  __device__ static float min(const Row& r, int) { return r.d * r.zero; }
};

// [16] f32, for the chunk, of codes times 2^-kSmall with x times 2^(kSmall / 2).
template <int kSmall>
struct FloatOfChunk {
  static constexpr int kGroup = 0, kBytes = 16 * 4;
  static constexpr bool kMins = false;
  using Row = float;
  __device__ static Row load(const std::byte* at, int row) {
    constexpr auto kPower = static_cast<float>(int64_t{1} << (kSmall - kSmall / 2));
    return reinterpret_cast<const float*>(at)[row] * kPower;
  }
  __device__ static float scale(const Row& r, int) { return r; }
  __device__ static float min(const Row&, int) { return 0; }
};

// [16][4] exponents with bias 127, of codes times 2^-126 with x times 2^63: kMore than published, so that the least is
// a normal number and what lies too high infinite.
struct Exponents {
  static constexpr int kGroup = 32, kBytes = 16 * 4, kMore = 63;
  static constexpr bool kMins = false;
  using Row = uint32_t;
  __device__ static Row load(const std::byte* at, int row) { return detail::word_at(at, row); }
  __device__ static float scale(const Row& r, int g) {
    return __uint_as_float((g == 3 ? r >> 1 : r << (23 - 8 * g)) & 0x7f800000u);
  }
  __device__ static float min(const Row&, int) { return 0; }
};

// [16] d and dmin, f16; then [16][8] bytes.
struct PairAndBytes {
  static constexpr int kBytes = 16 * 4 + 16 * 8;
  static constexpr bool kMins = true;
  struct Row {
    float d, dmin;
    uint32_t w[2];
  };
  __device__ static Row load(const std::byte* at, int row) {
    const uint32_t word = detail::word_at(at, row);
    const uint2 v = *reinterpret_cast<const uint2*>(at + 64 + row * 8);
    return {detail::half_of(word, 0), detail::half_of(word, 1), {v.x, v.y}};
  }
};

// Its bytes are [4] of scale and min.
struct BytesAndMins : PairAndBytes {
  static constexpr int kGroup = 32;
  __device__ static float scale(const Row& r, int g) {
    return detail::times_byte(r.w[g / 2], g % 2 * 2, r.d, r.d * -detail::kByteBase);
  }
  __device__ static float min(const Row& r, int g) {
    return detail::times_byte(r.w[g / 2], g % 2 * 2 + 1, r.dmin, r.dmin * -detail::kByteBase);
  }
  // The mins of groups 2i and 2i + 1 before dmin, as operands that are small as Integers are.
  __device__ static uint32_t min_codes(const Row& r, int i) { return (i == 0 ? r.w[0] : r.w[1]) >> 8 & 0x00ff00ffu; }
};

// [16] d, f16; then [16][4] int8.
struct SignedBytes {
  static constexpr int kGroup = 32, kBytes = 16 * 2 + 16 * 4;
  static constexpr bool kMins = false;
  struct Row {
    float d;
    uint32_t w;
  };
  __device__ static Row load(const std::byte* at, int row) {
    return {f16_value(reinterpret_cast<const uint16_t*>(at)[row]), detail::word_at(at + 32, row)};
  }
  __device__ static float scale(const Row& r, int g) { return r.d * detail::signed_byte_of(r.w, g); }
  __device__ static float min(const Row&, int) { return 0; }
};

// Groups of 16: [16] d, f16; then [16][8] scales + 128.
struct GroupsOf16 {
  static constexpr int kGroup = 16, kBytes = 16 * 2 + 16 * 8;
  static constexpr bool kMins = false;
  struct Row {
    float d;
    uint32_t w[2];
  };
  __device__ static Row load(const std::byte* at, int row) {
    const uint2 v = *reinterpret_cast<const uint2*>(at + 32 + row * 8);
    return {f16_value(reinterpret_cast<const uint16_t*>(at)[row]), {v.x, v.y}};
  }
  __device__ static float scale(const Row& r, int g) {
    return detail::times_byte(r.w[g / 4], g % 4, r.d, r.d * -(detail::kByteBase + 128));
  }
  __device__ static float min(const Row&, int) { return 0; }
};

// Groups of 16: [16] f32, of codes times 2^-126 with x times 2^63; then [16][8] floats of 5 bits of exponent and 3 of
// mantissa, which by kBase are those of E4M3 times 2^-21, all of them normal.
struct FloatsOf16 {
  static constexpr int kGroup = 16, kBytes = 16 * 4 + 16 * 8;
  static constexpr bool kMins = false;
  static constexpr uint32_t kBase = 96u << 23;
  struct Row {
    float d;
    uint32_t w[2];
  };
  // 0 to 0x7e; zero, which has no such byte, is that of the least.
  __device__ static uint32_t byte_of(uint32_t e4m3) {
    if (e4m3 >= 8) return e4m3 + (3 << 3);
    return e4m3 < 2 ? 1 << 3 : e4m3 < 4 ? 2 << 3 | (e4m3 & 1) << 2 : 3 << 3 | (e4m3 & 3) << 1;
  }
  __device__ static float stored(float d) { return d * 0x1p84f; }
  __device__ static Row load(const std::byte* at, int row) {
    const uint2 v = *reinterpret_cast<const uint2*>(at + 64 + row * 8);
    return {reinterpret_cast<const float*>(at)[row], {v.x, v.y}};
  }
  __device__ static float scale(const Row& r, int g) {
    const uint32_t w = r.w[g / 4], moved = g % 4 == 3 ? w >> 4 : w << (20 - 8 * (g % 4));
    return r.d * __uint_as_float((moved & 0x0ff00000u) | kBase);
  }
  __device__ static float min(const Row&, int) { return 0; }
};

// Groups of 16: its bytes have the scale in the low and the min in the high four bits.
struct GroupsOf16AndMins : PairAndBytes {
  static constexpr int kGroup = 16;
  __device__ static float scale(const Row& r, int g) {
    return r.d * static_cast<float>(r.w[g / 4] >> (8 * (g % 4)) & 15);
  }
  __device__ static float min(const Row& r, int g) {
    return r.dmin * static_cast<float>(r.w[g / 4] >> (8 * (g % 4) + 4) & 15);
  }
};

}  // namespace ingot::cuda
