// The kernels of matmul/cpu/kernels.h for the instruction set INGOT_ISA (cpu/isa_source.h), and their table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/cpu_math.h"
#include "cpu/exp_each.h"
#include "cpu/isa_source.h"
#include "cpu/simd.h"
#include "matmul/cpu/kernels.h"
#include "matmul/cpu/outer_dots.h"
#include "quant/format_list.inc"

// The formats compiled once more, for this set: in ingot_avx2, say, where they lie in ingot else, since the linker
// keeps only one copy of an inline function and must not take this one for every CPU.
#define INGOT_ISA_JOIN(A, B) INGOT_ISA_JOIN_EXPANDED(A, B)
#define INGOT_ISA_JOIN_EXPANDED(A, B) A##B
#define INGOT_ISA_FORMATS INGOT_ISA_JOIN(ingot_, INGOT_ISA)
#define ingot INGOT_ISA_FORMATS
#include "quant/format_headers.inc"
#undef ingot

namespace ingot::cpu::INGOT_ISA {
namespace {

// The rest of K after whole groups of 16 lanes, with zeros behind it: adding 0 · 0 changes no sum.
inline void load_rest(const float* p, int64_t n, Vec* out) {
  float padded[kLanes] = {};
  __builtin_memcpy(padded, p, static_cast<size_t>(n) * sizeof(float));
  for (int j = 0; j < kVecs; ++j) out[j] = load(padded + j * kVecLanes);
}

// R rows of x against C of w; all R · C sums stay in registers.
template <int R, int C>
inline void dot_tile(const float* const* x, const float* const* w, int64_t k, float* out, int64_t out_stride) {
  constexpr int kSums = (R * C + 3) / 4 * 4;
  Vec sums[kSums][kVecs] = {};
  int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) {
      Vec b[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) b[c] = load(w[c] + i + j * kVecLanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec a = load(x[r] + i + j * kVecLanes);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sums[r * C + c][j] = fma(a, b[c], sums[r * C + c][j]);
      }
    }
  }
  if (i < k) {
    Vec a[kVecs], b[kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      load_rest(x[r] + i, k - i, a);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        load_rest(w[c] + i, k - i, b);
#pragma GCC unroll 4
        for (int j = 0; j < kVecs; ++j) sums[r * C + c][j] = fma(a[j], b[j], sums[r * C + c][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int s = 0; s < kSums; s += 4) {
    const Vec4 four = sum4(sums + s);
#pragma GCC unroll 4
    for (int e = 0; e < 4; ++e)
      if (s + e < R * C) out[(s + e) / C * out_stride + (s + e) % C] = four[e];
  }
}

// The last `left` rows, fewer than R + 1.
template <int R, int C>
inline void dot_rest(int64_t left, const float* const* x, const float* const* w, int64_t k, float* out,
                     int64_t out_stride) {
  if constexpr (R > 0) {
    if (left == R) {
      dot_tile<R, C>(x, w, k, out, out_stride);
    } else {
      dot_rest<R - 1, C>(left, x, w, k, out, out_stride);
    }
  }
}

// C rows of w stay in the L1 cache while all of x passes.
template <int C>
void dot_columns(const float* const* x, int64_t nx, const float* const* w, int64_t k, float* out, int64_t out_stride) {
  int64_t i = 0;
  for (; i + kTileRows <= nx; i += kTileRows) dot_tile<kTileRows, C>(x + i, w, k, out + i * out_stride, out_stride);
  dot_rest<kTileRows - 1, C>(nx - i, x + i, w, k, out + i * out_stride, out_stride);
}

void dots(const float* const* x, int64_t nx, const float* const* w, int64_t nw, int64_t k, float* out,
          int64_t out_stride) {
  int64_t j = 0;
  if (nx == 1) {
    for (; j + kSoloCols <= nw; j += kSoloCols) dot_tile<1, kSoloCols>(x, w + j, k, out + j, out_stride);
  }
  for (; j + kTileCols <= nw; j += kTileCols) dot_columns<kTileCols>(x, nx, w + j, k, out + j, out_stride);
  for (; j < nw; ++j) dot_columns<1>(x, nx, w + j, k, out + j, out_stride);
}

#if defined(__ARM_NEON)
#define INGOT_EACH _Pragma("GCC unroll 4") for (int v = 0; v < 4; ++v)
// 1 + exp_f32(-x) of each, the same bits, where all x are above -88. Below 2^-24 the power does not matter, so that its
// exponent fits one factor, and the product with that is exact: it is rounded once, with the sum.
inline void one_and_exp(const float32x4_t (&x)[4], float32x4_t (&sum)[4]) {
  const float32x4_t round = vdupq_n_f32(12582912.0f), one = vdupq_n_f32(1.0f);
  float32x4_t shifted[4], r[4], p[4];
  INGOT_EACH r[v] = vminq_f32(x[v], vdupq_n_f32(86.0f));
  INGOT_EACH shifted[v] = vfmsq_f32(round, r[v], vdupq_n_f32(1.44269504f));
  INGOT_EACH p[v] = vsubq_f32(shifted[v], round);
  INGOT_EACH r[v] = vfmsq_f32(vnegq_f32(r[v]), p[v], vdupq_n_f32(0.693359375f));
  INGOT_EACH r[v] = vfmaq_f32(r[v], p[v], vdupq_n_f32(2.12194440e-4f));
  INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(1.39464391e-3f), vdupq_n_f32(1.99160131e-4f), r[v]);
  INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(8.33326858e-3f), p[v], r[v]);
  INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(4.16662656e-2f), p[v], r[v]);
  INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(1.66666672e-1f), p[v], r[v]);
  INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(0.5f), p[v], r[v]);
  INGOT_EACH p[v] = vaddq_f32(vfmaq_f32(r[v], vmulq_f32(r[v], r[v]), p[v]), one);
  INGOT_EACH {
    // The integer is in the low bits, those of the 1.5 · 2^23 above it are shifted out.
    const int32x4_t bits = vshlq_n_s32(vreinterpretq_s32_f32(shifted[v]), 23);
    sum[v] = vfmaq_f32(one, p[v], vreinterpretq_f32_s32(vaddq_s32(bits, vreinterpretq_s32_f32(one))));
  }
}

// silu_f32(gate) · up of the first multiple of 16; how many. A Neoverse-V1 takes 46 to 48 cycles for 16, and 54 with
// exp_of_each(), which very negative ones and what is no number need.
inline int64_t silu_glu(const float* gate, const float* up, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    float32x4_t x[4], sum[4];
    INGOT_EACH x[v] = vld1q_f32(gate + i + 4 * v);
    const float32x4_t least = vminq_f32(vminq_f32(x[0], x[1]), vminq_f32(x[2], x[3]));
    if (vminvq_f32(least) > -80.0f) {
      one_and_exp(x, sum);
    } else {
      INGOT_EACH sum[v] = vnegq_f32(x[v]);
      exp_of_each(sum);
      INGOT_EACH sum[v] = vaddq_f32(vdupq_n_f32(1.0f), sum[v]);
    }
    INGOT_EACH x[v] = vdivq_f32(x[v], sum[v]);
    INGOT_EACH vst1q_f32(out + i + 4 * v, vmulq_f32(x[v], vld1q_f32(up + i + 4 * v)));
  }
  return i;
}
#undef INGOT_EACH
#endif

void glu(ActivationKind kind, const float* gate, const float* up, float* out, int64_t n) {
#if defined(__ARM_NEON)
  if (kind == ActivationKind::kSilu) {
    const int64_t done = silu_glu(gate, up, out, n);
    gate += done, up += done, out += done, n -= done;
  }
#endif
  if (kind == ActivationKind::kClampedSwiglu) {
    for (int64_t i = 0; i < n; ++i) out[i] = clamped_swiglu_f32(gate[i], up[i]);
    return;
  }
  with_activation(kind, [&](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(gate[i]) * up[i];
  });
}

template <bool kAhead>
uint64_t read(const std::byte* from, int64_t bytes) {
  typedef uint64_t Words __attribute__((vector_size(sizeof(Vec))));
  constexpr int kSums = 512 / sizeof(Words) < 8 ? 512 / sizeof(Words) : 8;
  Words sums[kSums] = {};
  for (int64_t i = 0; i < bytes; i += kSums * static_cast<int64_t>(sizeof(Words))) {
#pragma GCC unroll 8
    for (int j = 0; j < kSums; ++j) {
      Words words;
      const std::byte* at = from + i + j * static_cast<int64_t>(sizeof(Words));
#if defined(__aarch64__)
      // A line at a time, far ahead, into the L3 cache: 79 GB/s on two Neoverse-V1 cores, 56 without.
      if (kAhead && j * sizeof(Words) % 64 == 0) __builtin_prefetch(at + (16 << 10), 0, 1);
#else
      if (kAhead) __builtin_prefetch(at + 4096);
#endif
      __builtin_memcpy(&words, at, sizeof(words));
      sums[j] ^= words;
    }
  }
  uint64_t total = 0;
  for (int j = 0; j < kSums; ++j)
    for (size_t e = 0; e < sizeof(Words) / 8; ++e) total += sums[j][e];
  return total;
}

template <class F>
void decode(const std::byte* in, float* out, int64_t n) {
  const uint8_t* __restrict from = reinterpret_cast<const uint8_t*>(in);
  float* __restrict to = out;
  if constexpr (requires { F::kWholeRows; }) {
    F::decode_row(from, to, n);
  } else {
    for (int64_t b = 0; b < n / F::kBlock; ++b) F::decode(from + b * F::kBytes, to + b * F::kBlock);
  }
}

constexpr DecodeFn kDecoders[] = {
#define X(NAME) decode<INGOT_ISA_FORMATS::NAME>,
    INGOT_FORMATS(X)
#undef X
};

constexpr Kernels kKernelTable = {
    .name = INGOT_ISA_NAME,
    .dots = dots,
    .outer = kOuterDots,
    .glu = glu,
    .read_ahead = read<true>,
    .read_plain = read<false>,
    .decoders = kDecoders,
};

#undef INGOT_ISA_FORMATS
#undef INGOT_ISA_JOIN_EXPANDED
#undef INGOT_ISA_JOIN

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
