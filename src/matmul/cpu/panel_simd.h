// The vectors that the panel kernels are written with, for the instruction set INGOT_ISA (cpu/isa_source.h). A vector
// covers kVecRows rows of a panel: 4 weights of each (Weights), a 32-bit sum (Ints), a float (Floats).
//
// Dot<kBits>: exact sums of products of 4- or 8-bit weights with the int8 of one row of x. result() is the sum of at
// most 32 values; for more, end_block() comes after each 32, and long_result() is their sum, from a start of 0.
//   kWide   it reads x as 16-bit integers, see XRow
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "cpu/isa_source.h"
#include "quant/panel_layout.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#if defined(__AVX512F__)

constexpr int kVecRows = 16;
constexpr int kTileVecs = 1;    // vectors of a tile
constexpr int kTileXRows = 12;  // rows of x of a tile: 12 integer and 12 float sums of 32 registers
constexpr int kDirectRows = 4;  // up to so many rows read the packed weights, more an expanded copy of them
constexpr int kFloatRows = 6, kFloatPanels = 4;
using Weights = __m512i;
using Ints = __m512i;
using Floats = __m512;

inline Weights load_weights(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline Weights low_nibbles(Weights w) { return _mm512_and_si512(w, _mm512_set1_epi8(15)); }
// With all lanes in the mask: the plain intrinsics warn under g++ 12.
inline Weights high_nibbles(Weights w) { return low_nibbles(_mm512_maskz_srli_epi16(~0u, w, 4)); }
inline void store_weights(uint8_t* p, Weights w) { _mm512_storeu_si512(p, w); }
// The entry of kPanelTable for each byte, 0 to 15.
inline Weights looked_up(Weights w) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kPanelTable));
  return _mm512_maskz_shuffle_epi8(~0ull, _mm512_maskz_broadcast_i32x4(0xffff, table), w);
}
typedef uint16_t Shorts __attribute__((vector_size(64)));

inline Floats zero_floats() { return _mm512_setzero_ps(); }
inline Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
inline void store_floats(float* p, Floats v) { _mm512_storeu_ps(p, v); }
inline Floats all(float x) { return _mm512_set1_ps(x); }
inline Floats times(Floats a, Floats b) { return a * b; }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats to_floats(Ints v) { return _mm512_maskz_cvtepi32_ps(0xffff, v); }
inline Floats load_halves(const uint8_t* p) {
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Floats load_bytes(const uint8_t* p) {
  return to_floats(_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
// Of rows of kBf16Group values each, value i as floats.
inline Floats load_bf16(const uint8_t* p, int i) {
  const __m512i both = _mm512_loadu_si512(p);
  return _mm512_castsi512_ps(i == 0 ? _mm512_maskz_slli_epi32(0xffff, both, 16)
                                    : _mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}
inline Ints all_ints(int32_t x) { return _mm512_set1_epi32(x); }
inline Ints load_ints(const void* p) { return _mm512_loadu_si512(p); }
inline void store_ints(void* p, Ints v) { _mm512_storeu_si512(p, v); }
inline Ints widen_bytes(const uint8_t* p) {
  return _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Ints minus_product(Ints sum, Ints a, int32_t b) {
  return _mm512_sub_epi32(sum, _mm512_mullo_epi32(a, all_ints(b)));
}

inline Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Ints add_shorts(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
inline Ints multiply_bytes(Weights w, Ints x) { return _mm512_maddubs_epi16(w, x); }
inline Ints multiply_shorts(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }
inline Ints all_shorts(int16_t x) { return _mm512_set1_epi16(x); }
inline Ints even_bytes(Weights w) { return _mm512_and_si512(w, all_shorts(255)); }
inline Ints odd_bytes(Weights w) { return _mm512_maskz_srli_epi16(~0u, w, 8); }

#elif defined(__AVX2__)

constexpr int kVecRows = 8;
constexpr int kTileVecs = 1;
constexpr int kTileXRows = 4;  // 4 integer and 4 float sums of 16 registers
constexpr int kDirectRows = 3;
constexpr int kFloatRows = 3, kFloatPanels = 4;
using Weights = __m256i;
using Ints = __m256i;
using Floats = __m256;

inline Weights load_weights(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline Weights low_nibbles(Weights w) { return _mm256_and_si256(w, _mm256_set1_epi8(15)); }
inline Weights high_nibbles(Weights w) { return low_nibbles(_mm256_srli_epi16(w, 4)); }
inline void store_weights(uint8_t* p, Weights w) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), w); }
inline Weights looked_up(Weights w) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kPanelTable));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), w);
}
typedef uint16_t Shorts __attribute__((vector_size(32)));

inline Floats zero_floats() { return _mm256_setzero_ps(); }
inline Floats load_floats(const float* p) { return _mm256_loadu_ps(p); }
inline void store_floats(float* p, Floats v) { _mm256_storeu_ps(p, v); }
inline Floats all(float x) { return _mm256_set1_ps(x); }
inline Floats times(Floats a, Floats b) { return a * b; }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
inline Floats load_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Floats load_bytes(const uint8_t* p) {
  return to_floats(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Floats load_bf16(const uint8_t* p, int i) {
  const __m256i both = load_weights(p);
  return _mm256_castsi256_ps(i == 0 ? _mm256_slli_epi32(both, 16)
                                    : _mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
}
inline Ints all_ints(int32_t x) { return _mm256_set1_epi32(x); }
inline Ints load_ints(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store_ints(void* p, Ints v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline Ints widen_bytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
inline Ints minus_product(Ints sum, Ints a, int32_t b) {
  return _mm256_sub_epi32(sum, _mm256_mullo_epi32(a, all_ints(b)));
}

inline Ints add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Ints add_shorts(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
inline Ints multiply_bytes(Weights w, Ints x) { return _mm256_maddubs_epi16(w, x); }
inline Ints multiply_shorts(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
inline Ints all_shorts(int16_t x) { return _mm256_set1_epi16(x); }
inline Ints even_bytes(Weights w) { return _mm256_and_si256(w, all_shorts(255)); }
inline Ints odd_bytes(Weights w) { return _mm256_srli_epi16(w, 8); }

#else

// Four rows: NEON, or what the compiler makes of it.
constexpr int kVecRows = 4;
typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));

inline Bytes load_16(const uint8_t* p) {
  Bytes w;
  __builtin_memcpy(&w, p, sizeof(w));
  return w;
}
#if defined(__ARM_NEON)
inline void store_16(uint8_t* p, Bytes w) {
  vst1q_u8(p, (uint8x16_t)w);
}  // g++ 12 may take a memcpy through general registers
#else
inline void store_16(uint8_t* p, Bytes w) { __builtin_memcpy(p, &w, sizeof(w)); }
#endif
// The bits `mask` of each byte after a shift to the left (or right, below 0) that leaves them inside their byte.
inline Bytes shifted_bits(Bytes w, int shift, uint8_t mask) { return (shift >= 0 ? w << shift : w >> -shift) & mask; }

#if defined(__ARM_NEON)
// A run of 8 values of four rows: two rows side by side, as smmla reads them.
struct Weights {
  Bytes pair[2];
};
inline Weights load_weights(const uint8_t* p) { return {{load_16(p), load_16(p + 16)}}; }
inline void store_weights(uint8_t* p, Weights w) {
  store_16(p, w.pair[0]);
  store_16(p + 16, w.pair[1]);
}
inline Weights low_nibbles(Weights w) { return {{w.pair[0] & 15, w.pair[1] & 15}}; }
inline Weights high_nibbles(Weights w) { return {{w.pair[0] >> 4, w.pair[1] >> 4}}; }
// Of signed nibbles: 16 times their value.
inline Weights low_times_16(Weights w) { return {{w.pair[0] << 4, w.pair[1] << 4}}; }
inline Weights high_times_16(Weights w) { return {{w.pair[0] & 0xf0, w.pair[1] & 0xf0}}; }
inline Weights looked_up(Weights w) {
  const uint8x16_t table = vreinterpretq_u8_s8(vld1q_s8(kPanelTable));
  for (Bytes& pair : w.pair) pair = (Bytes)vqtbl1q_u8(table, (uint8x16_t)pair);
  return w;
}
#else
using Weights = Bytes;
inline Weights load_weights(const uint8_t* p) { return load_16(p); }
inline void store_weights(uint8_t* p, Weights w) { store_16(p, w); }
inline Weights low_nibbles(Weights w) { return w & 15; }
inline Weights high_nibbles(Weights w) { return w >> 4; }
inline Weights looked_up(Weights w) {
  for (int i = 0; i < 16; ++i) w[i] = static_cast<uint8_t>(kPanelTable[w[i]]);
  return w;
}
#endif
inline Floats zero_floats() { return Floats{}; }
inline Floats load_floats(const float* p) {
  Floats v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
#if defined(__ARM_NEON)
inline void store_floats(float* p, Floats v) { vst1q_f32(p, (float32x4_t)v); }
#else
inline void store_floats(float* p, Floats v) { __builtin_memcpy(p, &v, sizeof(v)); }
#endif
inline Floats all(float x) { return x - Floats{}; }
inline Floats times(Floats a, Floats b) { return a * b; }
inline Floats to_floats(Ints v) { return __builtin_convertvector(v, Floats); }
inline Ints all_ints(int32_t x) { return x - Ints{}; }
inline Ints load_ints(const void* p) {
  Ints v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline void store_ints(void* p, Ints v) { __builtin_memcpy(p, &v, sizeof(v)); }
inline Ints widen_bytes(const uint8_t* p) { return Ints{p[0], p[1], p[2], p[3]}; }
inline Ints add_ints(Ints a, Ints b) { return a + b; }
inline Ints minus_product(Ints sum, Ints a, int32_t b) { return sum - a * b; }
#if !defined(__ARM_NEON)
inline Floats load_bytes(const uint8_t* p) {
  return Floats{static_cast<float>(static_cast<int8_t>(p[0])), static_cast<float>(static_cast<int8_t>(p[1])),
                static_cast<float>(static_cast<int8_t>(p[2])), static_cast<float>(static_cast<int8_t>(p[3]))};
}
#endif

#if defined(__ARM_NEON)

constexpr int kTileVecs = 2;
constexpr int kTileXRows = 4;  // 8 integer and 8 float sums of 32 registers
constexpr int kSoloRows = 2, kSoloVecs = 4;
inline Floats to_floats_16(Ints v) { return (Floats)vcvtq_n_f32_s32((int32x4_t)v, 4); }  // of 1/16 of it
constexpr int kDirectRows = 4;
constexpr int kFloatRows = 6, kFloatPanels = 4;
inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
// A load of 4 rows with their 4 values taken apart; the compiler keeps one for all four i.
inline Floats load_bf16(const uint8_t* p, int i) {
  const uint16x4x4_t all_four = vld4_u16(reinterpret_cast<const uint16_t*>(p));
  return (Floats)vreinterpretq_f32_u32(vshll_n_u16(all_four.val[i], 16));
}
inline Floats load_bytes(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  const int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
  return (Floats)vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
inline Floats load_halves(const uint8_t* p) { return (Floats)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }

// Signed bytes, or unsigned ones below 128, times signed bytes: both are read as signed.
template <int kBits>
struct Dot {
  static constexpr bool kWide = false;
  int32x4_t sum[2] = {};  // of each row two lanes
  int32_t start = 0;
  void begin(int32_t from) {
    sum[0] = sum[1] = vdupq_n_s32(0);
    start = from;
  }
  void add(const Weights& w, const int8_t* x, const int16_t*) {
    const int8x8_t run = vld1_s8(x);
    [[maybe_unused]] const int8x16_t a = vcombine_s8(run, run);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const int8x16_t b = (int8x16_t)w.pair[i];
#if defined(__ARM_FEATURE_DOTPROD)
      sum[i] = vdotq_s32(sum[i], b, a);
#else
      const int16x8_t low = vmull_s8(vget_low_s8(b), run), high = vmull_s8(vget_high_s8(b), run);
      sum[i] = vaddq_s32(
          sum[i], vcombine_s32(vmovn_s64(vpaddlq_s32(vpaddlq_s16(low))), vmovn_s64(vpaddlq_s32(vpaddlq_s16(high)))));
#endif
    }
  }
  void end_pair(int) {}
  void end_block() {}
  Ints result() const { return long_result() + start; }
  Ints long_result() const { return (Ints)vpaddq_s32(sum[0], sum[1]); }
};

#else

constexpr int kTileVecs = 1;
constexpr int kTileXRows = 2;
constexpr int kDirectRows = 2;
constexpr int kFloatRows = 2, kFloatPanels = 2;
inline Floats multiply_add(Floats a, Floats b, Floats c) { return a * b + c; }
inline Floats load_bf16(const uint8_t* p, int i) {
  const Ints both = load_ints(p);
  return (Floats)(i == 0 ? both << 16 : both & all_ints(static_cast<int32_t>(0xffff0000)));
}
inline Floats load_halves(const uint8_t* p) {
  Floats v{};
  for (int i = 0; i < 4; ++i) {
    const uint32_t half = static_cast<uint32_t>(p[2 * i] | p[2 * i + 1] << 8);
    const uint32_t moved = (half & 0x7fffu) << 13;
    const float finite = __builtin_bit_cast(float, moved) * 0x1p112f;
    const uint32_t magnitude = (half & 0x7fffu) >= 0x7c00u ? moved | 0x7f800000u : __builtin_bit_cast(uint32_t, finite);
    v[i] = __builtin_bit_cast(float, magnitude | (half & 0x8000u) << 16);
  }
  return v;
}

template <int kBits>
struct Dot {
  static constexpr bool kWide = false;
  Ints sum{};
  void begin(int32_t start) { sum = all_ints(start); }
  void add(Weights w, const int8_t* x, const int16_t*) {
    const auto row = [&](int r) { return w[r] * x[0] + w[r + 1] * x[1] + w[r + 2] * x[2] + w[r + 3] * x[3]; };
    sum += Ints{row(0), row(4), row(8), row(12)};
  }
  void end_pair(int) {}
  void end_block() {}
  Ints result() const { return sum; }
  Ints long_result() const { return sum; }
};

#endif
#endif

#if defined(__AVX512VNNI__)
template <int kBits>
struct Dot {
  static constexpr bool kWide = false;
  Ints sum{};
  void begin(int32_t start) { sum = all_ints(start); }
  void add(Weights w, const int8_t* x, const int16_t*) {
    int32_t quad;
    __builtin_memcpy(&quad, x, 4);
    sum = _mm512_dpbusd_epi32(sum, w, all_ints(quad));
  }
  void end_pair(int) {}
  void end_block() {}
  Ints result() const { return sum; }
  Ints long_result() const { return sum; }
};
#elif defined(__AVX2__)
// Sums in 16 bits for as long as they fit, then in 32: 16 products of 15 · 127 are 30480, 8 of 31 · 127 are 31496, 4 of
// 63 · 127 are 32004.
template <int kBits>
struct Dot {
  static constexpr bool kWide = false;
  static constexpr int kPairs = kBits == 4 ? 4 : kBits == 5 ? 2 : 1;  // of quads that fit
  Ints sum{}, total{};
  int32_t start = 0;
  void begin(int32_t from) {
    sum = total = all_ints(0);
    start = from;
  }
  void add(Weights w, const int8_t* x, const int16_t*) {
    int32_t quad;
    __builtin_memcpy(&quad, x, 4);
    sum = add_shorts(sum, multiply_bytes(w, all_ints(quad)));
  }
  void fold() {
    total = add_ints(multiply_shorts(sum, all_shorts(1)), total);
    sum = all_ints(0);
  }
  void end_pair(int p) {
    if (kPairs < 4 && p % kPairs == kPairs - 1) fold();
  }
  void end_block() {
    if (kPairs == 4) fold();
  }
  Ints result() const { return add_ints(kPairs == 4 ? multiply_shorts(sum, all_shorts(1)) : total, all_ints(start)); }
  Ints long_result() const { return total; }
};
// Two products of 255 · 127 do not fit 16 bits: even and odd weights as 16 bits each.
template <>
struct Dot<8> {
  static constexpr bool kWide = true;
  Ints sum{};
  void begin(int32_t start) { sum = all_ints(start); }
  void add(Weights w, const int8_t*, const int16_t* x) {
    int32_t even, odd;
    __builtin_memcpy(&even, x, 4);
    __builtin_memcpy(&odd, x + 2, 4);
    sum = add_ints(sum, multiply_shorts(even_bytes(w), all_ints(even)));
    sum = add_ints(sum, multiply_shorts(odd_bytes(w), all_ints(odd)));
  }
  void end_pair(int) {}
  void end_block() {}
  Ints result() const { return sum; }
  Ints long_result() const { return sum; }
};
#endif

#if !defined(__ARM_NEON)
// Only few rows of x gain by wider tiles, and only where a panel is several vectors.
constexpr int kSoloRows = 0, kSoloVecs = 1;
#endif

#if defined(__AVX2__)
// The bits `mask` of each byte after a shift to the left (or right, below 0) that leaves them inside their byte.
inline Weights shifted_bits(Weights w, int shift, uint8_t mask) {
  const Shorts moved = shift >= 0 ? (Shorts)w << shift : (Shorts)w >> -shift;
  return (Weights)(moved & static_cast<uint16_t>(mask * 0x101));
}
#endif

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
