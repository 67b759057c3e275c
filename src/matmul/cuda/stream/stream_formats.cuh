// Weights as the streaming kernels read them: which codes and scales make up each published format, and the product of
// a chunk. Packing loses nothing: weights are what the published format says, products are those of bf16 rows with
// exact codes, sums are f32, and a group's sum is multiplied by its scale.
#pragma once

#include "base/check.h"
#include "matmul/cuda/stream/stream_codes.cuh"
#include "matmul/cuda/stream/stream_scales.cuh"
#include "quant/weight.h"

namespace ingot::cuda {

// The operand itself.
struct StreamBF16 {
  static constexpr int kUnits = 1, kBytes = 1024, kMostRows = 48, kTerms = 1, kSumPower = 0, kOdd = 0;
  static constexpr bool kScaled = false, kBySixteens = false, kWide = true, kByGroups = false, kTall = false;
  __device__ __forceinline__ static void operand(const std::byte* chunk, int s, int, int lane, uint32_t (&a)[4]) {
    const uint4 v = *reinterpret_cast<const uint4*>(chunk + (s * 32 + lane) * 16);
    a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
  }
};

// f16 has 11 significant bits: the first eight are one operand, the rest another.
struct StreamF16 {
  static constexpr int kUnits = 1, kBytes = 1024, kMostRows = 48, kTerms = 2, kSumPower = 0, kOdd = 0;
  static constexpr bool kScaled = false, kBySixteens = false, kWide = true, kByGroups = true, kTall = true;
  __device__ __forceinline__ static void operand(const std::byte* chunk, int s, int term, int lane, uint32_t (&a)[4]) {
    const uint4 v = *reinterpret_cast<const uint4*>(chunk + (s * 32 + lane) * 16);
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const float low = f16_value(static_cast<uint16_t>(words[p])),
                  high = f16_value(static_cast<uint16_t>(words[p] >> 16));
      const uint32_t first = __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xffff0000u);
      if (term == 0) {
        a[p] = first;
      } else {
        a[p] = pack_bf16(low - __uint_as_float(first << 16), high - __uint_as_float(first & 0xffff0000u));
      }
    }
  }
};

// kTallest: rows of a tile. kMany: the kernels of wide.cuh and tall.cuh are built; kByGroups: those of wide.cuh
// multiply by warpgroups, too, with weights that are rounded to bf16.
template <class C, class S, int kOffset, int kTallest, bool kMany = false>
struct StreamCodes {
  using Codes = C;
  using Scales = S;
  static constexpr int kUnits = C::kUnits, kMostRows = kTallest;
  static constexpr int kScalesAt = C::kWords * 128, kBytes = kScalesAt + S::kBytes;
  static constexpr bool kScaled = true, kBySixteens = S::kGroup == 16, kWide = kMany, kByGroups = kMany, kTall = kMany;
  // x is multiplied by 2^kXPower; of integers sums are by the rest, of floats scales are.
  static constexpr int kXPower = C::kSmall / 2, kSumPower = C::kIntegers ? C::kSmall - kXPower : 0, kOdd = C::kOdd;
  static constexpr float kBias = kOffset;
  static constexpr int kGroupSteps = S::kGroup == 0 ? 2 * kUnits : S::kGroup / 16;  // instructions of a group
  static constexpr int kGroups = 2 * kUnits / kGroupSteps;
  static_assert(kBytes % 16 == 0);
};

using StreamQ4_0 = StreamCodes<Nibbles, HalfScales<4>, 8, 48, true>;
using StreamQ4_1 = StreamCodes<Nibbles, HalfMins, 0, 32>;
using StreamQ5_0 = StreamCodes<Fives, HalfScales<4>, 16, 32>;
using StreamQ5_1 = StreamCodes<Fives, HalfMins, 0, 32>;
using StreamQ8_0 = StreamCodes<Bytes<2>, HalfScales<2>, 128, 48, true>;
using StreamQ2_K = StreamCodes<Twos, GroupsOf16AndMins, 0, 32>;
using StreamQ3_K = StreamCodes<Threes, GroupsOf16, 4, 32>;
using StreamQ4_K = StreamCodes<Nibbles, BytesAndMins, 0, 48, true>;
using StreamQ5_K = StreamCodes<Fives, BytesAndMins, 0, 32, true>;
using StreamQ6_K = StreamCodes<Sixes, GroupsOf16, 32, 32, true>;
using StreamIQ4_NL = StreamCodes<Indices<IQ4_NL>, HalfScales<4>, 128, 32>;
using StreamIQ4_XS = StreamCodes<Indices<IQ4_NL>, SignedBytes, 128, 32>;
using StreamMXFP4 = StreamCodes<FloatsE2M1, Exponents, 0, 48, true>;
using StreamNVFP4 = StreamCodes<FloatsE2M1, FloatsOf16, 0, 32, true>;
using StreamINT4 = StreamCodes<Nibbles, HalfOfChunk, 8, 48, true>;
using StreamINT4_ASYM = StreamCodes<Nibbles, ZeroOfChunk, 0, 32>;
using StreamINT8 = StreamCodes<Bytes<4>, FloatOfChunk<0>, 128, 32, true>;
using StreamF8_E4M3 = StreamCodes<FloatsE4M3, FloatOfChunk<120>, 0, 32, true>;
using StreamF8_E5M2 = StreamCodes<FloatsE5M2, FloatOfChunk<112>, 0, 32>;

// clang-format off
#define INGOT_STREAM_CODES(X)                                                                 \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL)   \
  X(IQ4_XS) X(MXFP4) X(NVFP4) X(INT4) X(INT4_ASYM) X(INT8) X(F8_E4M3) X(F8_E5M2)
// clang-format on

// f(StreamQ4_0{}) for Format::kQ4_0. REQUIRES: stream_has() says yes of a weight of it.
template <class F>
decltype(auto) visit_stream(Format format, F&& f) {
  switch (format) {
#define X(NAME)         \
  case Format::k##NAME: \
    return f(Stream##NAME{});
    X(BF16)
    X(F16)
    INGOT_STREAM_CODES(X)
#undef X
    default:
      break;
  }
  CHECK(false, "format {}", static_cast<int>(format));
  __builtin_unreachable();
}

// f(Q4_0{}, StreamQ4_0{}) for formats of codes: all but those of 16 bits.
template <class F>
void visit_codes(Format format, F&& f) {
  switch (format) {
#define X(NAME)         \
  case Format::k##NAME: \
    return f(NAME{}, Stream##NAME{});
    INGOT_STREAM_CODES(X)
#undef X
    default:
      CHECK(false, "format {}", static_cast<int>(format));
  }
}

// Whether weights can be packed: all but F32, and scales beside the data only for whole chunks, or rows.
inline bool stream_has(const Weight& w) {
  if (w.format == Format::kF32) return false;
  if (w.format == Format::kNVFP4) return w.scale == nullptr || w.scale_cols >= w.cols;
  if (w.format != Format::kF8_E4M3 && w.format != Format::kF8_E5M2) return w.scale == nullptr;
  constexpr int64_t kCols = 32 * StreamF8_E4M3::kUnits;
  return w.scale == nullptr || w.scale_cols % kCols == 0 || w.scale_cols >= w.cols;
}

__device__ __forceinline__ void b_of(const uint4& x, int s, uint32_t (&b)[2]) {
  b[0] = s == 0 ? x.x : x.z;
  b[1] = s == 0 ? x.y : x.w;
}

// sums[m][j] += the product of the 16 rows of chunks[m] with octet j of rows of x, times 2^-W::kSumPower, of rows g + 8
// times 2^W::kOdd more: x_of(u, to) gives a lane's eight values of unit u for each octet.
template <class W, int M, int J, class X>
__device__ __forceinline__ void multiply_chunk(const std::byte* const (&chunks)[M], X&& x_of, int lane,
                                               float (&sums)[M][J][4]) requires(!W::kScaled) {
  uint4 x[J];
  x_of(0, x);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int term = 0; term < W::kTerms; ++term) {
        uint32_t a[4];
        W::operand(chunks[m], s, term, lane, a);
#pragma unroll
        for (int j = 0; j < J; ++j) {
          uint32_t b[2];
          b_of(x[j], s, b);
          multiply_bf16(sums[m][j], a, b);
        }
      }
    }
  }
}

// Sums of a group of codes, before its scale. A long group's may be two, so that instructions need not wait for each
// other.
template <class W, int M, int J>
struct GroupSums {
  using Codes = typename W::Codes;
  using Scales = typename W::Scales;
  static constexpr bool kIsChunk = W::kGroupSteps > 2;
  static constexpr int kChains = kIsChunk && J == 1 ? 2 : 1;
  static constexpr bool kOfX = W::kBias != 0 || Scales::kMins;
  float of[M][kChains][J][4];
  float of_x[J][4];  // of x alone, times -kBias where there is one, for rows g and g + 8

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int j = 0; j < J; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        of_x[j][e] = 0;
#pragma unroll
        for (int i = 0; i < M * kChains; ++i) of[i / kChains][i % kChains][j][e] = 0;
      }
    }
  }
  __device__ __forceinline__ void add_x(const uint4 (&x)[J], int s) {
    // As small as the codes.
    static_assert(!kOfX || (Codes::kIntegers && (W::kBias == 0 || !Scales::kMins)));
    constexpr uint32_t kOne = W::kBias == 0 ? 1 : static_cast<uint32_t>(W::kBias), kSign = W::kBias == 0 ? 0 : 0x8000;
    constexpr uint32_t kEven = (kOne | kSign) * 0x00010001u, kOdd = (kOne << W::kOdd | kSign) * 0x00010001u;
    const uint32_t ones[4] = {kEven, kOdd, kEven, kOdd};
#pragma unroll
    for (int j = 0; j < J; ++j) {
      uint32_t b[2];
      b_of(x[j], s, b);
      multiply_bf16(of_x[j], ones, b);
    }
  }
  // The same for octet j where somebody has added x up: of places 2t and 2t + 1, as small as the codes.
  __device__ __forceinline__ void add_sums(int j, const float2& of_places) {
    const float of[2] = {of_places.x, of_places.y};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float value = e < 2 ? of[e] : of[e - 2] * power_of_two(W::kOdd);
      of_x[j][e] = kIsChunk ? of_x[j][e] + value : value;
    }
  }
  // Short groups begin with their bias; of others it comes off at the end.
  __device__ __forceinline__ void begin_with_bias() {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int j = 0; j < J; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) of[m][0][j][e] = of_x[j][e];
      }
    }
  }
  __device__ __forceinline__ void add(const uint32_t (&codes)[M][Codes::kWords], const uint4 (&x)[J], int u, int s) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
      uint32_t a[4];
      Codes::operand(codes[m], u, s, a);
#pragma unroll
      for (int j = 0; j < J; ++j) {
        uint32_t b[2];
        b_of(x[j], s, b);
        multiply_bf16(of[m][s % kChains][j], a, b);
      }
    }
  }
  // kMins: they are taken off, too.
  template <bool kMins = Scales::kMins>
  __device__ __forceinline__ void scale_into(const typename Scales::Row (&rows)[M][2], int group,
                                             float (&sums)[M][J][4]) const {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float scale = Scales::scale(rows[m][i], group), min = Scales::min(rows[m][i], group);
#pragma unroll
        for (int e = 2 * i; e < 2 * i + 2; ++e) {
#pragma unroll
          for (int j = 0; j < J; ++j) {
            float value = of[m][0][j][e];
            if constexpr (kChains == 2) value += of[m][kChains - 1][j][e];
            if constexpr (kIsChunk && W::kBias != 0) value += of_x[j][e];
            sums[m][j][e] = __fmaf_rn(scale, value, sums[m][j][e]);
            if constexpr (kMins) sums[m][j][e] = __fmaf_rn(-min, of_x[j][e], sums[m][j][e]);
          }
        }
      }
    }
  }
};

template <class W, int M, int J, class X>
__device__ __forceinline__ void multiply_chunk(const std::byte* const (&chunks)[M], X&& x_of, int lane,
                                               float (&sums)[M][J][4]) requires(W::kScaled) {
  using Group = GroupSums<W, M, J>;
  uint32_t codes[M][W::Codes::kWords];
  typename W::Scales::Row rows[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    load_words(chunks[m], lane, codes[m]);
#pragma unroll
    for (int i = 0; i < 2; ++i) rows[m][i] = W::Scales::load(chunks[m] + W::kScalesAt, lane / 4 + 8 * i);
  }
  constexpr int kSteps = Group::kIsChunk ? 2 : W::kGroupSteps;  // of a group in a unit
  Group group;
#pragma unroll
  for (int u = 0; u < W::kUnits; ++u) {
    uint4 x[J];
    x_of(u, x);
#pragma unroll
    for (int j = 0; j < J && W::kXPower != 0; ++j) {
      constexpr uint32_t kPower = static_cast<uint32_t>(127 + W::kXPower) * 0x00800080u;
      x[j].x = multiply_pair(x[j].x, kPower), x[j].y = multiply_pair(x[j].y, kPower);
      x[j].z = multiply_pair(x[j].z, kPower), x[j].w = multiply_pair(x[j].w, kPower);
    }
#pragma unroll
    for (int first = 0; first < 2; first += kSteps) {
      if (!Group::kIsChunk || u == 0) group.begin();
      if constexpr (Group::kOfX) {
#pragma unroll
        for (int s = first; s < first + kSteps; ++s) group.add_x(x, s);
      }
      if constexpr (!Group::kIsChunk && W::kBias != 0) group.begin_with_bias();
#pragma unroll
      for (int s = first; s < first + kSteps; ++s) group.add(codes, x, u, s);
      if (!Group::kIsChunk || u == W::kUnits - 1) group.scale_into(rows, (2 * u + first) / W::kGroupSteps, sums);
    }
  }
}

}  // namespace ingot::cuda
