// One row of x by packed panels, of every kind.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/panel_sdot.h"
#include "matmul/cpu/arm/panel_solo_q6.h"
#include "matmul/cpu/arm/panel_solo_woven.h"
#include "matmul/cpu/panel_coarse.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Scales and mins of a group, 16 rows. Those of a super-block are opened once for its 256 values.
template <class L>
struct SoloFields {
  const PackedSource<L>& w;
  Floats d[4], dmin[4];

  void open(int64_t b) {
    if (L::kScale != ScaleKind::kSuper || b % (kPanelSuper / kPanelBlock) != 0) return;
    const uint8_t* super = w.super_of(b);
    for (int v = 0; v < 4; ++v) {
      d[v] = load_halves(super + 8 * v);
      if constexpr (L::kMin) dmin[v] = times(load_halves(super + 2 * kPanelRows + 8 * v), all(-1.0f));
    }
  }
  // Of a super-block's group, all rows at once.
  void get(int64_t group, Floats* scale, Floats* min) const {
    const uint8_t* bytes = w.scales_of(group);
    times_bytes(bytes, d, scale);
    if constexpr (L::kMin) times_bytes(bytes + kPanelRows, dmin, min);
  }

 private:
  static void times_bytes(const uint8_t* bytes, const Floats* factor, Floats* to) {
    const int8x16_t all_rows = vreinterpretq_s8_u8(vld1q_u8(bytes));
    const int16x8_t half[2] = {vmovl_s8(vget_low_s8(all_rows)), vmovl_high_s8(all_rows)};
    for (int h = 0; h < 2; ++h) {
      to[2 * h] = times(factor[2 * h], (Floats)vcvtq_f32_s32(vmovl_s16(vget_low_s16(half[h]))));
      to[2 * h + 1] = times(factor[2 * h + 1], (Floats)vcvtq_f32_s32(vmovl_high_s16(half[h])));
    }
  }
};

// Groups of 32 or 16.
template <class L>
inline void solo_blocks(const PackedSource<L>& w, int64_t blocks, int32_t start, const XRow& x, uint8x16_t mask,
                        Floats (&acc)[4]) {
  constexpr int kRuns = L::kGroup / kRun;
  const auto* runs = reinterpret_cast<const int8_t*>(x.wide);
  SoloFields<L> fields{w, {}, {}};
  for (int64_t b = 0; b < blocks; ++b) {
    const XBlock& block = x.blocks[b];
    fetch_block<L>(w.runs_of(b));
    fields.open(b);
#pragma GCC unroll 2
    for (int g = 0; g < L::kGroups; ++g) {
      int32x4_t sum[8];
      solo_products<L, kRuns>(w, b, g * kRuns, runs + 64 * b + 16 * kRuns * g, mask, sum);
      const int32_t from = start * (L::kGroups == 1 ? block.total : block.half_total[g]);
      const Floats a = all(block.scale), s = all(L::kGroups == 1 ? block.sum : block.half_sum[g]);
      const int64_t group = b * L::kGroups + g;
      Floats scale[4], min[4];
      if constexpr (L::kScale == ScaleKind::kSuper) fields.get(group, scale, min);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        if constexpr (L::kScale != ScaleKind::kSuper) {
          scale[v] = w.scale(group, 4 * v);
          if constexpr (L::kMin) min[v] = w.min(group, 4 * v);
        }
        Ints dot = (Ints)vpaddq_s32(sum[2 * v], sum[2 * v + 1]);
        if (start != 0) dot += from;
        acc[v] = multiply_add(PackedSource<L>::floats(dot), times(a, scale[v]), acc[v]);
        if constexpr (L::kMin) acc[v] = multiply_add(min[v], s, acc[v]);
      }
    }
  }
}

// Groups of 128: the products of four blocks are one integer.
template <class L>
inline void solo_groups(const PackedSource<L>& w, int64_t blocks, int32_t start, const XRow& x, uint8x16_t mask,
                        Floats (&acc)[4]) {
  constexpr int64_t kOfGroup = kPanelCoarse / kPanelBlock;
  const auto* runs = reinterpret_cast<const int8_t*>(x.coarse.wide);
  for (int64_t g = 0; g * kOfGroup < blocks; ++g) {
    const int64_t first = g * kOfGroup, end = blocks < first + kOfGroup ? blocks : first + kOfGroup;
    int32x4_t sum[8];
    if (L::kBits == 4 && end - first == kOfGroup) {
      solo_group<L>(w.runs_of(first), runs + 64 * first, mask, sum);
    } else {
      fetch_block<L>(w.runs_of(first));
      solo_products<L, 4>(w, first, 0, runs + 64 * first, mask, sum);
      for (int64_t b = first + 1; b < end; ++b) {
        fetch_block<L>(w.runs_of(b));
        solo_products<L, 4, false>(w, b, 0, runs + 64 * b, mask, sum);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const Ints total = (Ints)vpaddq_s32(sum[2 * v], sum[2 * v + 1]);
      acc[v] = add_group(w, g, 4 * v, total, start, x.coarse.blocks[g], acc[v]);
    }
  }
}

#include "matmul/cpu/arm/panel_solo_q6.h"
template <class L>
void run_solo(const PanelSpan& span, const XRow& x, float* out) {
  const PackedWeight& weight = *span.weight;
  const int64_t blocks = weight.cols / kPanelBlock;
  const int32_t start = PackedSource<L>::start(weight.zero);
  const uint8x16_t mask = vld1q_u8(kNibbleMasks[L::kFlip == 0x88]);
  for (int64_t i = 0; i < span.n; ++i, out += kPanelRows) {
    const PackedSource<L> w(weight, span.first + i);
    Floats acc[4] = {};
    if constexpr (L::kCoarse) {
      solo_groups<L>(w, blocks, start, x, mask, acc);
    } else if constexpr (kWoven<L>) {
      solo_woven<L>(w, blocks, x, mask, acc);
    } else if constexpr (L::kThreeRuns) {
      solo_six<L>(w, blocks, x, acc);
    } else {
      solo_blocks<L>(w, blocks, start, x, mask, acc);
    }
    for (int v = 0; v < 4; ++v) store_floats(out + 4 * v, scale_row(w, 4 * v, acc[v]));
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
