// The cache's types in the vectors of the instruction set INGOT_ISA (cpu/isa_source.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa_source.h"
#include "cpu/simd.h"
#include "ops/kv_cache.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Queries × 4 vectors of sums in registers: 24 of 32, or 12 of 16. NEON broadcasts from a register, so that a tile of 6
// would keep two of its sums in memory.
#if defined(__AVX512F__)
constexpr int kRows = 6;
#elif defined(__ARM_NEON)
constexpr int kRows = 4;
#else
constexpr int kRows = 3;
#endif

typedef int32_t IVec __attribute__((vector_size(sizeof(Vec))));

inline float f32_of_f16(uint16_t half) {
#if defined(__F16C__)
  return _cvtsh_ss(half);
#elif defined(__ARM_NEON)
  return static_cast<float>(__builtin_bit_cast(__fp16, half));
#else
  // Exponent and mantissa in place, then 2^112 corrects the bias: exact, subnormals too.
  const uint32_t magnitude = half & 0x7fffu, moved = magnitude << 13;
  const float finite = __builtin_bit_cast(float, moved) * 0x1p112f;
  const uint32_t bits = magnitude >= 0x7c00u ? moved | 0x7f800000u : __builtin_bit_cast(uint32_t, finite);
  return __builtin_bit_cast(float, bits | static_cast<uint32_t>(half & 0x8000u) << 16);
#endif
}

// kVecLanes elements of a type of the cache.
inline Vec load_f16(const uint16_t* p) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__ARM_NEON)
  return (Vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
  return Vec{f32_of_f16(p[0]), f32_of_f16(p[1]), f32_of_f16(p[2]), f32_of_f16(p[3])};
#endif
}
inline Vec load_bf16(const uint16_t* p) {
  typedef uint16_t Halves __attribute__((vector_size(2 * kVecLanes)));
  Halves halves;
  __builtin_memcpy(&halves, p, sizeof(halves));
  return (Vec)(__builtin_convertvector(halves, IVec) << 16);
}
inline Vec load_int8(const int8_t* p) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes));
#else
  typedef int8_t Bytes __attribute__((vector_size(kVecLanes)));
  Bytes bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  return __builtin_convertvector(__builtin_convertvector(bytes, IVec), Vec);
#endif
}

// Codes of fp8 (e4m3). Where f16 is converted by an instruction: exponent and mantissa in place for f16, whose bias is
// 8 larger, and 2^8 corrects it: exact, subnormals too.
inline Vec load_fp8(const uint8_t* p) {
#if defined(__F16C__) || defined(__ARM_NEON)
  typedef int16_t Halves __attribute__((vector_size(2 * kVecLanes)));
  // The sign, extended, is in the upper two bits, of which f16 has one.
#if defined(__ARM_NEON)
  uint32_t bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  const Halves moved = (Halves)vget_low_s16(vshll_n_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)), 7));
#else
  typedef int8_t Bytes __attribute__((vector_size(kVecLanes)));
  Bytes bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  const Halves moved = __builtin_convertvector(bytes, Halves) << 7;
#endif
  const Halves halves = moved & static_cast<int16_t>(0xbfff);
  const Halves all = halves | ((halves & static_cast<int16_t>(0x7fff)) == static_cast<int16_t>(0x3f80));
#if defined(__ARM_NEON)
  const Vec value = (Vec)vcvt_f32_f16(vreinterpret_f16_s16((int16x4_t)all));
#elif defined(__AVX512F__)
  const Vec value = _mm512_maskz_cvtph_ps(0xffff, (__m256i)all);
#else
  const Vec value = _mm256_cvtph_ps((__m128i)all);
#endif
  return value * broadcast(256.0f);
#else
  typedef uint8_t Bytes __attribute__((vector_size(kVecLanes)));
  Bytes bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  // As F8_E4M3::decode(): a number below 2^-6 has no leading one.
  const IVec code = __builtin_convertvector(bytes, IVec), magnitude = code & 0x7f;
  const IVec subnormal = magnitude < 8, nan = magnitude == 0x7f;
  const IVec bits = (magnitude << 20) + (120 << 23) + (subnormal & (1 << 23));
  const Vec value = (Vec)bits - (Vec)(subnormal & 0x3c800000);
  return (Vec)((IVec)value | (nan & 0x7ff00000) | ((code & 0x80) << 24));
#endif
}
inline float f32_of_fp8(uint8_t code) {
  const uint8_t codes[kVecLanes] = {code};
  return load_fp8(codes)[0];
}

// The same as f32_to_f16() without branches, but that finite values beyond the largest become the largest: an infinity
// in the cache would make every later score no number.
inline uint32_t f16_of_f32(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;  // float addition rounds at 2^-24
  const uint32_t small = __builtin_bit_cast(uint32_t, shifted) - 0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? small : rounded;
  half = magnitude >= 0x477ff000u ? 0x7bffu : half;
  half = magnitude >= 0x7f800000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return half | ((bits >> 16) & 0x8000u);
}

// The same as F8_E4M3::encode() without branches.
inline uint32_t fp8_of_f32(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
  const float shifted = __builtin_bit_cast(float, magnitude) + 0x1p14f;  // float addition rounds at 2^-9
  const uint32_t small = __builtin_bit_cast(uint32_t, shifted) - 0x46800000u;
  uint32_t code = magnitude < 0x3c800000u ? small : rounded;
  code = magnitude >= 0x43e00000u ? 0x7eu : code;
  code = magnitude >= 0x7f800000u ? 0x7fu : code;
  return code | bits >> 31 << 7;
}

// Scale `i` of those behind a value in q8_0: at an odd address where the head's size is odd.
inline float scale_at(const std::byte* scales, int64_t i) {
  uint16_t half;
  __builtin_memcpy(&half, scales + 2 * i, 2);
  return f32_of_f16(half);
}

inline uint32_t bf16_of_f32(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 64u : rounded;
}

template <class T>
inline T* at(std::byte* p) {
  return reinterpret_cast<T*>(p);
}
template <class T>
inline const T* at(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}

// n <= 32 values as int8; their f16 scale is returned.
inline uint16_t quantize(const float* x, int64_t n, int8_t* out) {
  uint32_t largest = 0;  // by magnitude's bits: NaN is the largest of all
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t a = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu;
    largest = a > largest ? a : largest;
  }
  float unit = __builtin_bit_cast(float, largest) / 127.0f;
  unit = unit > kQ8MostScale && largest < 0x7f800000u ? kQ8MostScale : unit;
  const uint16_t scale = static_cast<uint16_t>(f16_of_f32(unit));
  const float d = f32_of_f16(scale);
  const float inverse = d > 0.0f ? 1.0f / d : 0.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer in the low bits of the sum
  for (int64_t i = 0; i < n; ++i) {
    float q = x[i] * inverse;
    q = q > 127.0f ? 127.0f : q;  // where the scale was rounded down
    q = q < -127.0f ? -127.0f : q;
    out[i] = static_cast<int8_t>(__builtin_bit_cast(int32_t, q + kRound) - __builtin_bit_cast(int32_t, kRound));
  }
  return scale;
}

// Whole numbers -127 … 127, to nearest even; NaN: 0.
inline void round_int8(const float* x, int64_t n, int8_t* out) {
  constexpr float kRound = 12582912.0f;  // as in quantize()
  for (int64_t i = 0; i < n; ++i) {
    float q = x[i] > 127.0f ? 127.0f : x[i];
    q = q < -127.0f ? -127.0f : q;
    q = q == q ? q : 0.0f;
    out[i] = static_cast<int8_t>(__builtin_bit_cast(int32_t, q + kRound) - __builtin_bit_cast(int32_t, kRound));
  }
}

void store_value(DType dtype, const float* value, int64_t dim, std::byte* row) {
  switch (dtype) {
    case DType::kF16:
      for (int64_t d = 0; d < dim; ++d) at<uint16_t>(row)[d] = static_cast<uint16_t>(f16_of_f32(value[d]));
      return;
    case DType::kBF16:
      for (int64_t d = 0; d < dim; ++d) at<uint16_t>(row)[d] = static_cast<uint16_t>(bf16_of_f32(value[d]));
      return;
    case DType::kFp8:
      for (int64_t d = 0; d < dim; ++d) at<uint8_t>(row)[d] = static_cast<uint8_t>(fp8_of_f32(value[d]));
      return;
    case DType::kInt8:
      return round_int8(value, dim, at<int8_t>(row));
    case DType::kQ8_0:
      for (int64_t d = 0; d < dim; d += kQ8Block) {
        const uint16_t scale = quantize(value + d, dim - d < kQ8Block ? dim - d : kQ8Block, at<int8_t>(row) + d);
        __builtin_memcpy(row + dim + d / kQ8Block * 2, &scale, 2);
      }
      return;
    default:
      __builtin_memcpy(row, value, static_cast<size_t>(dim) * 4);
  }
}

template <class T, class F>
inline void store_lane(const float* key, int64_t dim, std::byte* group, int64_t lane, const F& narrow) {
  constexpr int kPiece = 32;  // narrowed as a vector, then dealt out
  T piece[kPiece];
  for (int64_t d = 0; d < dim; d += kPiece) {
    const int64_t n = dim - d < kPiece ? dim - d : kPiece;
    narrow(key + d, n, piece, d);
    for (int64_t i = 0; i < n; ++i) at<T>(group)[(d + i) * kKeyGroup + lane] = piece[i];
  }
}

void store_key(DType dtype, const float* key, int64_t dim, std::byte* group, int64_t lane) {
  switch (dtype) {
    case DType::kF16:
      return store_lane<uint16_t>(key, dim, group, lane, [](const float* x, int64_t n, uint16_t* out, int64_t) {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(f16_of_f32(x[i]));
      });
    case DType::kBF16:
      return store_lane<uint16_t>(key, dim, group, lane, [](const float* x, int64_t n, uint16_t* out, int64_t) {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(bf16_of_f32(x[i]));
      });
    case DType::kFp8:
      return store_lane<uint8_t>(key, dim, group, lane, [](const float* x, int64_t n, uint8_t* out, int64_t) {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(fp8_of_f32(x[i]));
      });
    case DType::kInt8:
      return store_lane<int8_t>(key, dim, group, lane,
                                [](const float* x, int64_t n, int8_t* out, int64_t) { round_int8(x, n, out); });
    case DType::kQ8_0: {
      static_assert(kQ8Block == 32, "a piece is a block");
      uint16_t* scales = at<uint16_t>(group + dim * kKeyGroup);
      return store_lane<int8_t>(key, dim, group, lane, [&](const float* x, int64_t n, int8_t* out, int64_t d) {
        scales[d / kQ8Block * kKeyGroup + lane] = quantize(x, n, out);
      });
    }
    default:
      for (int64_t d = 0; d < dim; ++d) at<float>(group)[d * kKeyGroup + lane] = key[d];
  }
}

void widen(DType dtype, const std::byte* in, int64_t n, float* __restrict out) {
  if (dtype == DType::kFp8) {
    int64_t i = 0;
    for (; i + kVecLanes <= n; i += kVecLanes) store(out + i, load_fp8(at<uint8_t>(in) + i));
    for (; i < n; ++i) out[i] = f32_of_fp8(at<uint8_t>(in)[i]);
    return;
  }
  if (dtype == DType::kInt8) {
    int64_t i = 0;
    for (; i + kVecLanes <= n; i += kVecLanes) store(out + i, load_int8(at<int8_t>(in) + i));
    for (; i < n; ++i) out[i] = static_cast<float>(at<int8_t>(in)[i]);
    return;
  }
  const uint16_t* from = at<uint16_t>(in);
  const bool f16 = dtype == DType::kF16;
  int64_t i = 0;
  if (f16) {
    for (; i + kVecLanes <= n; i += kVecLanes) store(out + i, load_f16(from + i));
  } else {
    for (; i + kVecLanes <= n; i += kVecLanes) store(out + i, load_bf16(from + i));
  }
  for (; i < n; ++i)
    out[i] = f16 ? f32_of_f16(from[i]) : __builtin_bit_cast(float, static_cast<uint32_t>(from[i]) << 16);
}

void open_keys(DType dtype, const std::byte* group, int64_t dim, float* __restrict out) {
  if (dtype != DType::kQ8_0) return widen(dtype, group, dim * kKeyGroup, out);
  const int8_t* from = at<int8_t>(group);
  const uint16_t* scales = at<uint16_t>(group + dim * kKeyGroup);
  for (int64_t d = 0; d < dim; scales += kKeyGroup) {
    Vec scale[kVecs];
    for (int v = 0; v < kVecs; ++v) scale[v] = load_f16(scales + v * kVecLanes);
    for (const int64_t end = d + kQ8Block < dim ? d + kQ8Block : dim; d < end; ++d) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const int64_t i = d * kKeyGroup + v * kVecLanes;
        store(out + i, load_int8(from + i) * scale[v]);
      }
    }
  }
}

void open_values(DType dtype, const std::byte* rows, int64_t n, int64_t dim, float* __restrict out) {
  if (dtype != DType::kQ8_0) return widen(dtype, rows, n * dim, out);
  // Not dtype_row_bytes(): a copy of it compiled for this set must not reach the linker.
  const int64_t row_bytes = dim + (dim + kQ8Block - 1) / kQ8Block * 2;
  for (int64_t r = 0; r < n; ++r, rows += row_bytes, out += dim) {
    const int8_t* from = at<int8_t>(rows);
    for (int64_t d = 0; d < dim;) {
      uint16_t half;
      __builtin_memcpy(&half, rows + dim + d / kQ8Block * 2, 2);
      const float scale = f32_of_f16(half);
      const int64_t end = d + kQ8Block < dim ? d + kQ8Block : dim;
      for (; d + kVecLanes <= end; d += kVecLanes) store(out + d, load_int8(from + d) * broadcast(scale));
      for (; d < end; ++d) out[d] = static_cast<float>(from[d]) * scale;
    }
  }
}

// How a type of the cache is read into vectors.
template <DType kType>
struct Stored;
template <>
struct Stored<DType::kF32> {
  using Type = float;
  static Vec read(const float* p) { return load(p); }
};
template <>
struct Stored<DType::kF16> {
  using Type = uint16_t;
  static Vec read(const uint16_t* p) { return load_f16(p); }
};
template <>
struct Stored<DType::kBF16> {
  using Type = uint16_t;
  static Vec read(const uint16_t* p) { return load_bf16(p); }
};
template <>
struct Stored<DType::kFp8> {
  using Type = uint8_t;
  static Vec read(const uint8_t* p) { return load_fp8(p); }
};
template <>
struct Stored<DType::kQ8_0> {
  using Type = int8_t;
  static Vec read(const int8_t* p) { return load_int8(p); }
};

template <>
struct Stored<DType::kInt8> {
  using Type = int8_t;
  static Vec read(const int8_t* p) { return load_int8(p); }
};

// Calls f with the type as a constant.
template <class F>
inline void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF16:
      return f(Stored<DType::kF16>{});
    case DType::kBF16:
      return f(Stored<DType::kBF16>{});
    case DType::kFp8:
      return f(Stored<DType::kFp8>{});
    case DType::kInt8:
      return f(Stored<DType::kInt8>{});
    case DType::kQ8_0:
      return f(Stored<DType::kQ8_0>{});
    default:
      return f(Stored<DType::kF32>{});
  }
}
template <class S>
constexpr bool kScaled = __is_same(S, Stored<DType::kQ8_0>);

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
