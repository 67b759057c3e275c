// Products of bf16 by bfmmla, for a cache of bf16: queries and weights are rounded to bf16 too. For
// AArch64 with bf16.
//
// bfmmla multiplies two rows of four by two columns of four into 2 × 2 sums. "Pairs" is how it reads both sides: for
// each two rows and each four of the depth 16 bytes, four of the one, four of the other. One Neoverse-V1 does 311
// GFLOP/s with it, and 83 with fmla. An output's sum is in order of the depth, four at a time, whatever the shape of
// the tile.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ops/attention/cpu/attention_kernels.h"
#include "ops/attention/cpu/attention_simd.h"
#include "ops/attention/cpu/attention_softmax.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

inline bfloat16x8_t pair_at(const uint16_t* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

// Rows in pairs: [pair][depth / 4][2][4]. A row that is missing is the one before it again.
void pack_rows(const float* const* rows, int64_t n, int64_t depth, uint16_t* out) {
  for (int64_t i = 0; i < n; i += 2) {
    const float *a = rows[i], *b = rows[i + 1 < n ? i + 1 : i];
    for (int64_t d = 0; d < depth; d += 4, out += 8)
      vst1q_u16(out,
                vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(a + d)), vld1q_f32(b + d))));
  }
}

void store_key_pairs(const float* key, int64_t dim, std::byte* group, int64_t lane) {
  uint16_t* out = at<uint16_t>(group) + 4 * lane;
  for (int64_t d = 0; d < dim; d += 4, out += 4 * kKeyGroup)
    vst1_u16(out, vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(key + d))));
}

void store_value_pairs(const float* value, int64_t dim, std::byte* group, int64_t lane) {
  uint16_t* out = at<uint16_t>(group) + lane;
  for (int64_t d = 0; d < dim; d += 4, out += 4 * kValueGroup) {
    const uint16x4_t four = vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(value + d)));
    vst1_lane_u16(out, four, 0);
    vst1_lane_u16(out + kValueGroup, four, 1);
    vst1_lane_u16(out + 2 * kValueGroup, four, 2);
    vst1_lane_u16(out + 3 * kValueGroup, four, 3);
  }
}

void mask_values(const std::byte* group, int64_t dim, int64_t begin, int64_t end, std::byte* out) {
  uint16_t lanes[2 * kValueGroup];
  for (int64_t i = 0; i < 2 * kValueGroup; ++i)
    lanes[i] = i % kValueGroup >= begin && i % kValueGroup < end ? 0xffff : 0;
  const uint16x8_t seen = vld1q_u16(lanes);
  for (int64_t i = 0; i < kValueGroup * dim; i += 8)
    vst1q_u16(at<uint16_t>(out) + i, vandq_u16(vld1q_u16(at<uint16_t>(group) + i), seen));
}

// Columns of products: pairs(s, c) are those of step s from column c on, and ask<J>(s, c) asks for what lies alike in
// other groups, a line for each four pairs.
// Not a loop: g++ 12 drops one that does nothing else.
template <int J, int kLevel>
inline void ask_for(const uint16_t* from) {
  __builtin_prefetch(from, 0, kLevel);
  if constexpr (J == 8) __builtin_prefetch(from + 32, 0, kLevel);
}
struct KeyColumns {
  const std::byte* group;
  Bf16Products::Asked asked;

  static int64_t place(int64_t s, int64_t c) { return s * 4 * kKeyGroup + 4 * c; }
  bool asks() const { return asked.far != nullptr; }
  const uint16_t* pairs(int64_t s, int64_t c) const { return at<uint16_t>(group) + place(s, c); }
  template <int J>
  void ask(int64_t s, int64_t c) const {
    ask_for<J, 1>(at<uint16_t>(asked.far) + place(s, c));
    ask_for<J, 3>(at<uint16_t>(asked.near) + place(s, c));
  }
};
struct ValueColumns {
  const std::byte *const *groups, *const *far;

  bool asks() const { return far != nullptr; }
  const uint16_t* pairs(int64_t s, int64_t c) const { return at<uint16_t>(groups[s]) + kValueGroup * c; }
  template <int J>
  void ask(int64_t s, int64_t c) const {
    ask_for<J, 1>(at<uint16_t>(far[s]) + kValueGroup * c);
  }
};

// I pairs of rows, a_stride values apart, by J pairs of columns from column c on.
template <int I, int J, bool kAsks, class Columns>
inline void pairs_tile(const uint16_t* a, int64_t a_stride, int64_t steps, const Columns& columns, int64_t c,
                       int64_t rows, float* out, int64_t stride) {
  float32x4_t sum[I][J];
#pragma GCC unroll 3
  for (int i = 0; i < I; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) sum[i][j] = vdupq_n_f32(0);
#pragma GCC unroll 2
  for (int64_t s = 0; s < steps; ++s, a += 8) {
    const uint16_t* b = columns.pairs(s, c);
    if constexpr (kAsks) columns.template ask<J>(s, c);
    bfloat16x8_t row[I];
#pragma GCC unroll 3
    for (int i = 0; i < I; ++i) row[i] = pair_at(a + a_stride * i);
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) {
      const bfloat16x8_t column = pair_at(b + 8 * j);
#pragma GCC unroll 3
      for (int i = 0; i < I; ++i) sum[i][j] = vbfmmlaq_f32(sum[i][j], row[i], column);
    }
  }
#pragma GCC unroll 3
  for (int i = 0; i < I; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < J; j += 2) {
      const float64x2_t left = vreinterpretq_f64_f32(sum[i][j]), right = vreinterpretq_f64_f32(sum[i][j + 1]);
      float* to = out + 2 * i * stride + c + 2 * j;
      vst1q_f32(to, vreinterpretq_f32_f64(vzip1q_f64(left, right)));
      if (2 * i + 1 < rows) vst1q_f32(to + stride, vreinterpretq_f32_f64(vzip2q_f64(left, right)));
    }
}

// Columns [c, …) as far as tiles of J pairs go; where the next begin.
template <int I, int J, class Columns>
inline int64_t pairs_tiles(const uint16_t* a, int64_t a_stride, int64_t steps, const Columns& columns, int64_t c,
                           int64_t cols, bool asks, int64_t rows, float* out, int64_t stride) {
  for (; c + 2 * J <= cols; c += 2 * J) {
    if (asks) {
      pairs_tile<I, J, true>(a, a_stride, steps, columns, c, rows, out, stride);
    } else {
      pairs_tile<I, J, false>(a, a_stride, steps, columns, c, rows, out, stride);
    }
  }
  return c;
}

// All rows, 6 at a time by 8 columns, or up to 4 by 16: 12 and 16 sums. `cols` is a multiple of 8. Asks once.
template <class Columns>
inline void multiply(const uint16_t* a, int64_t rows, int64_t depth, int64_t steps, const Columns& columns,
                     int64_t cols, float* out, int64_t stride) {
  bool asks = columns.asks();
  for (; rows > 0; rows -= 6, a += 6 * depth, out += 6 * stride, asks = false) {
    if (rows > 4) {
      pairs_tiles<3, 4>(a, 2 * depth, steps, columns, 0, cols, asks, rows, out, stride);
    } else if (rows > 2) {
      const int64_t c = pairs_tiles<2, 8>(a, 2 * depth, steps, columns, 0, cols, asks, rows, out, stride);
      pairs_tiles<2, 4>(a, 2 * depth, steps, columns, c, cols, asks, rows, out, stride);
    } else {
      const int64_t c = pairs_tiles<1, 8>(a, 2 * depth, steps, columns, 0, cols, asks, rows, out, stride);
      pairs_tiles<1, 4>(a, 2 * depth, steps, columns, c, cols, asks, rows, out, stride);
    }
  }
}

void score_pairs(const uint16_t* q, int64_t nq, int64_t dim, const std::byte* group, const Bf16Products::Asked& asked,
                 float* out, int64_t stride) {
  multiply(q, nq, dim, dim / 4, KeyColumns{group, asked}, kKeyGroup, out, stride);
}

void mix_pairs(const uint16_t* weights, int64_t nq, int64_t depth, const std::byte* const* groups,
               const std::byte* const* far, int64_t n, int64_t dim, float* out, int64_t stride) {
  multiply(weights, nq, depth, n, ValueColumns{groups, far}, dim, out, stride);
}

// The weights 2^((score - top) · factor) of one query, bf16, four of each 8 places of `out`; their sum, before they are
// rounded. 2^y is as good as bf16 needs it (3e-6), and 0 below -125. Four vectors step by step, since g++ 12 would make
// one after another: 7.5 cycles each against 9.8.
inline float weigh_row(const float* row, int64_t n, float factor, float top, uint16_t* out) {
  const float32x4_t round = vdupq_n_f32(12582912.0f);  // see exp_f32()
  float32x4_t sum = vdupq_n_f32(0);
  for (int64_t j = 0; j < n; j += kKeyGroup, out += 2 * kKeyGroup) {
    float32x4_t y[4], shifted[4], f[4], p[4];
#define INGOT_EACH _Pragma("GCC unroll 4") for (int v = 0; v < 4; ++v)
    INGOT_EACH y[v] = vmulq_f32(vsubq_f32(vld1q_f32(row + j + 4 * v), vdupq_n_f32(top)), vdupq_n_f32(factor));
    INGOT_EACH shifted[v] = vaddq_f32(y[v], round);
    INGOT_EACH f[v] = vsubq_f32(y[v], vsubq_f32(shifted[v], round));
    INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(5.59064333e-2f), f[v], vdupq_n_f32(9.58285429e-3f));
    INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(2.40240986e-1f), f[v], p[v]);
    INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(6.93124192e-1f), f[v], p[v]);
    INGOT_EACH p[v] = vfmaq_f32(vdupq_n_f32(1.0f), f[v], p[v]);
    INGOT_EACH {
      const uint32x4_t far = vcltq_f32(y[v], vdupq_n_f32(-125.0f));
      const int32x4_t bits = vaddq_s32(vreinterpretq_s32_f32(p[v]), vshlq_n_s32(vreinterpretq_s32_f32(shifted[v]), 23));
      p[v] = vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_s32(bits), far));
      vst1_bf16(reinterpret_cast<bfloat16_t*>(out + 8 * v), vcvt_bf16_f32(p[v]));
      sum = vaddq_f32(sum, p[v]);
    }
#undef INGOT_EACH
  }
  return vaddvq_f32(sum);
}

void weigh_pairs(float* scores, int64_t stride, int64_t nq, const SeenRanges& seen, int64_t from, int64_t to,
                 float scale, float softcap, float* max, float* sum, uint16_t* out) {
  const float factor = factor_of(scale, softcap);
  const auto sees = [&](int64_t i) { return seen.begin[i] < seen.end[i]; };
  // All maxima first: a row's exponentials would wait for its own.
  for (int64_t i = 0; i < nq; ++i) {
    if (!sees(i)) continue;
    float* row = scores + i * stride;
    mask(row, from, seen.begin[i], seen.end[i], to, scale, softcap);
    Vec most[kVecs];
    find_largest(row, from, to, broadcast(1.0f), most);
    max[i] = vmaxnmvq_f32((float32x4_t)larger(larger(most[0], most[1]), larger(most[2], most[3])));
  }
  for (int64_t i = 0; i < nq; ++i) {
    uint16_t* pairs = out + (i & ~int64_t{1}) * (to - from) + 4 * (i & 1);
    // A query that sees nothing weighs nothing. What lies beside the last of an odd number has no output.
    if (!sees(i)) {
      for (int64_t j = 0; j < to - from; j += 4) vst1_u16(pairs + 2 * j, vdup_n_u16(0));
      continue;
    }
    sum[i] = weigh_row(scores + i * stride + from, to - from, factor * 1.44269504f, max[i], pairs);
    max[i] *= factor;
  }
}

constexpr Bf16Products kBf16Products = {
    .pack_rows = pack_rows,
    .store_key = store_key_pairs,
    .store_value = store_value_pairs,
    .scores = score_pairs,
    .mix = mix_pairs,
    .mask_values = mask_values,
    .weigh = weigh_pairs,
};

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
