// smmla: the plain tile of one to three pairs of rows of x by 8 outputs, of packed or expanded panels. Those of the
// formats that matter most are assembly beside it (panel_i8mm_expanded.h, panel_i8mm_packed.h), with the same bits.
//
// It and bfmmla (panel_bfmmla.h) multiply two rows of weights by two rows of x into 2 × 2 sums: [w0·x0, w0·x1, w1·x0,
// w1·x1]. A run of a panel is 8 pairs of rows, 16 bytes each. Rows of x are packed six at a time, three pairs, by
// pack_tile().
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/panel_i8mm_x.h"
#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Four values of rows as the 2 × 2 sums want them: each twice.
inline void spread(float32x4_t v, float32x4_t* to) {
  to[0] = vzip1q_f32(v, v);
  to[1] = vzip2q_f32(v, v);
}

// Sums of I pairs of rows of x and 8 outputs, from and to memory in rows of x.
template <int I>
struct PairSums {
  float32x4_t acc[I][4];

  void clear() {
#pragma GCC unroll 4
    for (int i = 0; i < I; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) acc[i][j] = vdupq_n_f32(0);
  }
  void load(const float* out, int64_t stride, int64_t rows) {
#pragma GCC unroll 4
    for (int i = 0; i < I; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < 4; j += 2) {
        const float32x4_t a = vld1q_f32(out + 2 * i * stride + 2 * j);
        const float32x4_t b = 2 * i + 1 < rows ? vld1q_f32(out + (2 * i + 1) * stride + 2 * j) : a;
        acc[i][j] = vzip1q_f32(a, b);
        acc[i][j + 1] = vzip2q_f32(a, b);
      }
  }
  void store(float* out, int64_t stride, int64_t rows) const {
#pragma GCC unroll 4
    for (int i = 0; i < I; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < 4; j += 2) {
        vst1q_f32(out + 2 * i * stride + 2 * j, vuzp1q_f32(acc[i][j], acc[i][j + 1]));
        if (2 * i + 1 < rows) vst1q_f32(out + (2 * i + 1) * stride + 2 * j, vuzp2q_f32(acc[i][j], acc[i][j + 1]));
      }
  }
};

// The integer sums of I pairs of rows of x and 8 outputs.
template <int I>
struct PairInts {
  int32x4_t sum[I][4];
};

template <bool kFirst, int I>
inline void add_pairs(const int8x16_t (&w)[4], const int8_t* x, PairInts<I>& to) {
#pragma GCC unroll 4
  for (int i = 0; i < I; ++i) {
    const int8x16_t a = vld1q_s8(x + 16 * i);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) to.sum[i][j] = vmmlaq_s32(kFirst ? vdupq_n_s32(0) : to.sum[i][j], w[j], a);
  }
}

template <bool kFirst, int I>
inline void add_run(const uint8_t* w, const int8_t* x, PairInts<I>& to) {
  int8x16_t pair[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) pair[j] = vld1q_s8(reinterpret_cast<const int8_t*>(w) + 16 * j);
  add_pairs<kFirst, I>(pair, x, to);
}

// kRuns runs of block b from run `first` on, outputs [at, at + 8), and of x at `a`.
template <int kRuns, bool kFirst, class L, int I>
inline void products(const ExpandedSource<L>& w, int64_t b, int first, int at, const int8_t* a, PairInts<I>& to) {
  const uint8_t* q = w.runs_at(b * kPanelBlock + kRun * first) + kRun * at;
  add_run<kFirst>(q, a, to);
#pragma GCC unroll 4
  for (int r = 1; r < kRuns; ++r) add_run<false>(q + r * 128, a + 16 * I * r, to);
}
template <int kRuns, bool kFirst, class L, int I>
inline void products(const PackedSource<L>& w, int64_t b, int first, int at, const int8_t* a, PairInts<I>& to) {
#pragma GCC unroll 2
  for (int p = 0; p < kRuns / 2; ++p) {
    int8x16_t even[4], odd[4];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      Weights e, o;
      w.runs(b, first / 2 + p, at + 4 * h, e, o);
      for (int i = 0; i < 2; ++i) {
        even[2 * h + i] = (int8x16_t)e.pair[i];
        odd[2 * h + i] = (int8x16_t)o.pair[i];
      }
    }
    if (kFirst && p == 0) {
      add_pairs<true, I>(even, a, to);
    } else {
      add_pairs<false, I>(even, a + 32 * I * p, to);
    }
    add_pairs<false, I>(odd, a + 32 * I * p + 16 * I, to);
  }
}

// Field `which` (0 the scale, 1 the min or the zero points) of outputs [at, at + 8), spread.
template <class L>
inline void get_spread(const PackedSource<L>& w, int64_t g, int at, int which, float32x4_t* to) {
  for (int h = 0; h < 2; ++h) {
    if constexpr (L::kScale == ScaleKind::kF16Zero) {
      spread((float32x4_t)(which == 0 ? w.scale(g, at + 4 * h) : (Floats)w.zeros(g, at + 4 * h)), to + 2 * h);
    } else if constexpr (L::kMin) {
      spread((float32x4_t)(which == 0 ? w.scale(g, at + 4 * h) : w.min(g, at + 4 * h)), to + 2 * h);
    } else {
      spread((float32x4_t)w.scale(g, at + 4 * h), to + 2 * h);
    }
  }
}
template <class L>
inline void get_spread(const ExpandedSource<L>& w, int64_t g, int at, int which, float32x4_t* to) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) to[j] = vld1q_f32(w.fields(g, which) + 2 * at + 4 * j);
}

// The integer sums of group g, XBlock b of x, become floats. `in_block` is the group's place in its block, for groups
// of 16.
template <class Source, int I>
inline void add_sums(const Source& w, int64_t g, int in_block, int64_t b, int32_t start, const XTile& x, int at,
                     PairInts<I>& ints, PairSums<I>& to) {
  using L = typename Source::Layout;
  constexpr bool kHalves = L::kGroups == 2;
  float32x4_t scale[4], min[4];
  if constexpr (L::kScale != ScaleKind::kRow) get_spread(w, g, at, 0, scale);
  if constexpr (L::kScale == ScaleKind::kF16Zero || L::kMin) get_spread(w, g, at, 1, min);
#pragma GCC unroll 4
  for (int i = 0; i < I; ++i) {
    const float32x4_t a = vld1q_f32(x.field(XTile::kScale, b) + 4 * i);
    const auto total = [&] {
      const int which = L::kCoarse ? XTile::kCoarseTotal : kHalves ? XTile::kHalfTotal + in_block : XTile::kTotal;
      return vreinterpretq_s32_f32(vld1q_f32(x.field(which, b) + 4 * i));
    };
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      int32x4_t sum = ints.sum[i][j];
      if (start != 0) sum = vmlaq_s32(sum, total(), vdupq_n_s32(start));
      if constexpr (L::kScale == ScaleKind::kF16Zero) sum = vmlsq_s32(sum, vreinterpretq_s32_f32(min[j]), total());
      float32x4_t p = a;
      if constexpr (L::kScale != ScaleKind::kRow) p = vmulq_f32(a, scale[j]);
      to.acc[i][j] = vfmaq_f32(to.acc[i][j], (float32x4_t)Source::floats((Ints)sum), p);
    }
    if constexpr (L::kMin) {
      const float32x4_t s = vld1q_f32(x.field(kHalves ? XTile::kHalfSum + in_block : XTile::kSum, b) + 4 * i);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) to.acc[i][j] = vfmaq_f32(to.acc[i][j], min[j], s);
    }
  }
}

// I pairs of rows of x against outputs [at, at + 8) of a panel, blocks [first, end) of `blocks`; x begins with the
// first.
template <class Source, int I>
inline void pair_tile(const Source& w, int64_t first, int64_t end, int64_t blocks, int zero, const XTile& x, int at,
                      int64_t rows, float* out, int64_t stride) {
  using L = typename Source::Layout;
  const int32_t start = Source::start(zero);
  PairSums<I> sums;
  if (first == 0) {
    sums.clear();
  } else {
    sums.load(out, stride, rows);
  }
  if constexpr (L::kCoarse) {
    constexpr int64_t kOfGroup = kPanelCoarse / kPanelBlock;
    for (int64_t b = first; b < end; b += kOfGroup) {
      PairInts<I> ints;
      products<4, true>(w, b, 0, at, x.run(b - first, 0), ints);
      for (int64_t i = b + 1; i < b + kOfGroup && i < end; ++i)
        products<4, false>(w, i, 0, at, x.run(i - first, 0), ints);
      add_sums(w, b / kOfGroup, 0, (b - first) / kOfGroup, start, x, at, ints, sums);
    }
  } else {
    for (int64_t b = first; b < end; ++b) {
      constexpr int kRuns = L::kGroup / kRun;
#pragma GCC unroll 2
      for (int g = 0; g < L::kGroups; ++g) {
        PairInts<I> ints;
        products<kRuns, true>(w, b, g * kRuns, at, x.run(b - first, g * kRuns), ints);
        add_sums(w, b * L::kGroups + g, g, b - first, start, x, at, ints, sums);
      }
    }
  }
  if constexpr (L::kScale == ScaleKind::kRow) {
    if (end == blocks)
      for (int h = 0; h < 2; ++h) {
        float32x4_t all_four[4];
        get_spread(w, 0, at, 0, all_four);
        const float32x4_t* scale = all_four + 2 * h;
        for (int i = 0; i < I; ++i)
          for (int j = 0; j < 2; ++j) sums.acc[i][2 * h + j] = vmulq_f32(sums.acc[i][2 * h + j], scale[j]);
      }
  }
  sums.store(out, stride, rows);
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
