// Tiles of a packed panel of 4 or 8 bits with a scale for each 32 values (Q4_0, Q4_1, Q8_0, MXFP4, Q4_K), for a batch
// of a few answers: one pair of rows of x by 16 outputs, two or three by 8, or four by 4. Assembly for the reasons
// of panel_i8mm_expanded.h. The scales and mins of Q4_K are made floats a super-block at a time, before its tiles.
//
//   one, two and four pairs  v8 … v15 float sums, v16 … v23 integer sums, v28 mask, the table in v29 (of four pairs
//   v30),
//                            the others weights, x and scales
//   three pairs              v8 … v19 float sums, v20 … v31 integer sums, v7 mask, the table in v2, the others of v0 …
//   v6
//                            weights, x and scales
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/all_vectors.h"
#include "matmul/cpu/arm/panel_i8mm_packed_orders.h"
#include "matmul/cpu/arm/panel_i8mm_pairs.h"
#include "matmul/cpu/arm/panel_i8mm_super_orders.h"
#include "matmul/cpu/arm/panel_sdot.h"
#include "matmul/cpu/arm/panel_solo_woven.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#define INGOT_MOVE_8_SUMS(OP)                                                                       \
  OP " q8, q9, [%[acc]]\n\t" OP " q10, q11, [%[acc], #32]\n\t" OP " q12, q13, [%[acc], #64]\n\t" OP \
     " q14, q15, [%[acc], #96]\n\t"
#define INGOT_MOVE_12_SUMS(OP) \
  INGOT_MOVE_8_SUMS(OP) OP " q16, q17, [%[acc], #128]\n\t" OP " q18, q19, [%[acc], #160]\n\t"
// Blocks in this order: BYTES of weights and SCALES of scales each; MORE goes on.
#define INGOT_LOAD_MASK(REG) "ldr q" REG ", [%[mask]]\n\t"
#define INGOT_LOAD_TABLE(MASK, TABLE) INGOT_LOAD_MASK(MASK) "ldr q" TABLE ", [%[table]]\n\t"
#define INGOT_PACKED_BLOCKS(SUMS, MASK, ORDER, BYTES, SCALES, MORE)                                                    \
  asm volatile(SUMS("ldp") MASK ".p2align 6\n\t1:\n\t" ORDER "add %[w], %[w], #" BYTES "\n\tadd %[s], %[s], #" SCALES  \
                                "\n\tadd %[x], %[x], %[step]\n\t"                                                      \
                                "add %[xs], %[xs], %[step]\n\tadd %[xm], %[xm], %[step]\n\t" MORE                      \
                                "subs %[n], %[n], #1\n\tb.ne 1b\n\t" SUMS("stp")                                       \
               : [w] "+r"(a.w), [s] "+r"(a.scales), [x] "+r"(a.x), [xs] "+r"(a.x_scales), [xm] "+r"(a.x_sums),         \
                 [n] "+r"(a.n), [y] "+r"(a.y), [ys] "+r"(a.y_scales), [ym] "+r"(a.y_sums)                              \
               : [acc] "r"(acc), [mask] "r"(kNibbleMasks[L::kFlip == 0x88]), [step] "r"(a.step), [next] "r"(a.y_step), \
                 [table] "r"(kSoloMasks[3])                                                                            \
               : "cc", "memory", INGOT_ALL_VECTORS)
#define INGOT_ADVANCE_Y "add %[y], %[y], %[next]\n\tadd %[ys], %[ys], %[next]\n\tadd %[ym], %[ym], %[next]\n\t"

// Whether these tiles take this layout, where sums begin at 0.
template <class L>
constexpr bool kPackedTile = (L::kBits == 4 || L::kBits == 8) && L::kGroup == 32 &&
                             (L::kScale == ScaleKind::kF16 || L::kScale == ScaleKind::kBF16);
// Whether there is one of a pair of rows among them.
template <class L>
constexpr bool kPackedPair = kPackedTile<L>&& L::kBits == 4 && !L::kMin;
// Whether those of super-blocks do.
template <class L>
constexpr bool kSuperTile = L::kBits == 4 && L::kGroup == 32 && L::kScale == ScaleKind::kSuper&& L::kMin;

// What a loop reads, n blocks of it; y is a fourth pair of rows.
struct PackedArgs {
  const uint8_t *w, *scales;
  const int8_t* x;
  const float *x_scales, *x_sums;
  int64_t n;
  const int8_t* y;
  const float *y_scales, *y_sums;
  int64_t step, y_step;

  template <class L>
  PackedArgs(const PackedSource<L>& source, int64_t blocks, int at, const XTile& a, const XTile& b)
      : w(source.runs_of(0) + kRun * at),
        scales(source.scales_of(0) + 2 * at),
        x(a.q),
        x_scales(a.field(XTile::kScale, 0)),
        x_sums(a.field(XTile::kSum, 0)),
        n(blocks),
        y(b.q),
        y_scales(b.field(XTile::kScale, 0)),
        y_sums(b.field(XTile::kSum, 0)),
        step(a.step),
        y_step(b.step) {
    static_assert(L::kPart == (L::kBits == 8 ? 544 : L::kMin && !kSuperTile<L> ? 320 : 288));
  }
  // Blocks of the super-block that begins with block `first`, and their fields.
  template <class L>
  PackedArgs(const PackedSource<L>& source, int64_t first, int at, const float* fields, const XTile& a)
      : PackedArgs(source, kPanelSuper / kPanelBlock, at, a, a) {
    w = source.runs_of(first) + kRun * at;
    scales = reinterpret_cast<const uint8_t*>(fields + 2 * at);
  }
};

// I = 2 or 3 pairs of rows of x by 8 outputs, 1 by 16, or 4 by 4: their float sums in `acc`.
template <class L, int I>
inline void add_packed(PackedArgs a, float* acc) {
  if constexpr (I == 2 && L::kBits == 8) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, "", INGOT_ORDER_PACKED_Q8_TWO, "544", "544", "");
  } else if constexpr (I == 3 && L::kBits == 8) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, "", INGOT_ORDER_PACKED_Q8_THREE, "544", "544", "");
  } else if constexpr (L::kBits == 8) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, "", INGOT_ORDER_PACKED_Q8_FOUR, "544", "544", INGOT_ADVANCE_Y);
  } else if constexpr (I == 2 && L::kMin) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_MIN_TWO, "320", "320", "");
  } else if constexpr (I == 3 && L::kMin) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, INGOT_LOAD_MASK("7"), INGOT_ORDER_PACKED_Q4_MIN_THREE, "320", "320", "");
  } else if constexpr (L::kMin) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_MIN_FOUR, "320", "320",
                        INGOT_ADVANCE_Y);
  } else if constexpr (I == 1) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_ONE, "288", "288", "");
  } else if constexpr (I == 2) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_TWO, "288", "288", "");
  } else if constexpr (I == 3) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, INGOT_LOAD_MASK("7"), INGOT_ORDER_PACKED_Q4_THREE, "288", "288", "");
  } else {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_FOUR, "288", "288",
                        INGOT_ADVANCE_Y);
  }
}

// The same of nibbles that a table turns to bytes.
template <class L, int I>
inline void add_tabled(PackedArgs a, float* acc) {
  if constexpr (I == 1) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_TABLE("28", "29"), INGOT_ORDER_TABLE_ONE, "288", "288", "");
  } else if constexpr (I == 2) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_TABLE("28", "29"), INGOT_ORDER_TABLE_TWO, "288", "288", "");
  } else if constexpr (I == 3) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, INGOT_LOAD_TABLE("7", "2"), INGOT_ORDER_TABLE_THREE, "288", "288", "");
  } else {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_TABLE("28", "30"), INGOT_ORDER_TABLE_FOUR, "288", "288",
                        INGOT_ADVANCE_Y);
  }
}

// Of the blocks of one super-block, I = 1, 2 or 3: scales and mins are SpreadFields.
template <class L, int I>
inline void add_super(PackedArgs a, float* acc) {
  if constexpr (I == 1) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_SUPER_ONE, "288", "256", "");
  } else if constexpr (I == 2) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_SUPER_TWO, "288", "256", "");
  } else {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, INGOT_LOAD_MASK("7"), INGOT_ORDER_SUPER_THREE, "288", "256", "");
  }
}

template <class L, int I>
inline void add_blocks(const PackedArgs& a, float* acc) {
  if constexpr (L::kTable) {
    add_tabled<L, I>(a, acc);
  } else {
    add_packed<L, I>(a, acc);
  }
}

#undef INGOT_MOVE_8_SUMS
#undef INGOT_MOVE_12_SUMS
#undef INGOT_LOAD_MASK
#undef INGOT_LOAD_TABLE
#undef INGOT_PACKED_BLOCKS
#undef INGOT_ORDER_PACKED_Q8_TWO
#undef INGOT_ORDER_PACKED_Q8_THREE
#undef INGOT_ORDER_PACKED_Q8_FOUR
#undef INGOT_ADVANCE_Y
#undef INGOT_ORDER_PACKED_Q4_ONE
#undef INGOT_ORDER_PACKED_Q4_TWO
#undef INGOT_ORDER_PACKED_Q4_MIN_TWO
#undef INGOT_ORDER_PACKED_Q4_THREE
#undef INGOT_ORDER_PACKED_Q4_MIN_THREE
#undef INGOT_ORDER_PACKED_Q4_FOUR
#undef INGOT_ORDER_PACKED_Q4_MIN_FOUR
#undef INGOT_ORDER_TABLE_ONE
#undef INGOT_ORDER_TABLE_TWO
#undef INGOT_ORDER_TABLE_THREE
#undef INGOT_ORDER_TABLE_FOUR
#undef INGOT_ORDER_SUPER_ONE
#undef INGOT_ORDER_SUPER_TWO
#undef INGOT_ORDER_SUPER_THREE

template <class L, int I>
inline void packed_tile(const PackedSource<L>& w, int64_t blocks, const XTile& x, int at, int64_t rows, float* out,
                        int64_t stride) {
  PairSums<I> sums;
  sums.clear();
  add_blocks<L, I>(PackedArgs(w, blocks, at, x, x), reinterpret_cast<float*>(&sums));
  sums.store(out, stride, rows);
}

// A pair of rows, or one row, by 16 outputs.
template <class L>
inline void packed_pair(const PackedSource<L>& w, int64_t blocks, const XTile& x, int64_t rows, float* out,
                        int64_t stride) {
  PairSums<1> sums[2];
  sums[0].clear();
  sums[1].clear();
  add_blocks<L, 1>(PackedArgs(w, blocks, 0, x, x), reinterpret_cast<float*>(&sums));
  sums[0].store(out, stride, rows);
  sums[1].store(out + 8, stride, rows);
}

// Tile x of six rows and tile y of the one or two after them, `rows` in all, by 16 outputs: the weights are
// read and unpacked once for both.
template <class L>
inline void packed_eight(const PackedSource<L>& w, int64_t blocks, const XTile& x, const XTile& y, int64_t rows,
                         float* out, int64_t stride) {
  for (int at = 0; at < kPanelRows; at += 4) {
    float32x4_t sums[4][2] = {};
    add_blocks<L, 4>(PackedArgs(w, blocks, at, x, y), reinterpret_cast<float*>(&sums));
    for (int i = 0; i < 4; ++i) {
      vst1q_f32(out + 2 * i * stride + at, vuzp1q_f32(sums[i][0], sums[i][1]));
      if (2 * i + 1 < rows) vst1q_f32(out + (2 * i + 1) * stride + at, vuzp2q_f32(sums[i][0], sums[i][1]));
    }
  }
}

// Scales and mins of a super-block's blocks as floats: for each block those of 16 rows, each twice as the 2 × 2 sums
// want them.
struct alignas(64) SpreadFields {
  static constexpr int64_t kBlocks = kPanelSuper / kPanelBlock;
  float of[kBlocks][2][2 * kPanelRows];

  template <class L>
  void open(const PackedSource<L>& w, int64_t first) {
    SuperFields super;
    super.open(w.super_of(first));
    const uint8x16_t above = vld1q_u8(kSoloMasks[2]);
    for (int64_t b = 0; b < kBlocks; ++b)
#pragma GCC unroll 2
      for (int f = 0; f < 2; ++f) {
        const uint8x16_t bytes = vld1q_u8(w.scales_of(first + b) + kPanelRows * f);
        const uint16x8_t words[2] = {vreinterpretq_u16_u8(vzip1q_u8(bytes, above)),
                                     vreinterpretq_u16_u8(vzip2q_u8(bytes, above))};
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          const uint16x8_t eight = words[v / 2];
          const uint32x4_t bits =
              v % 2 == 0 ? vshll_n_u16(vget_low_u16(eight), 15) : vshll_n_u16(vget_high_u16(eight), 15);
          const float32x4_t(&d)[2] = super.pair[4 * f + v];
          const float32x4_t four = vfmaq_f32(d[1], d[0], vreinterpretq_f32_u32(bits));
          vst1q_f32(of[b][f] + 8 * v, vzip1q_f32(four, four));
          vst1q_f32(of[b][f] + 8 * v + 4, vzip2q_f32(four, four));
        }
      }
  }
};

// Up to six rows by 16 outputs of a panel whose scales are of super-blocks, I pairs of them.
template <class L, int I>
inline void super_tile(const PackedSource<L>& w, int64_t blocks, const XTile& x, int64_t rows, float* out,
                       int64_t stride) {
  PairSums<I> sums[2];
  sums[0].clear();
  sums[1].clear();
  for (int64_t b = 0; b < blocks; b += SpreadFields::kBlocks) {
    SpreadFields fields;
    fields.open(w, b);
    fetch_block<L, 1>(w.scales_of(b));
    const XTile tile = x.from(b, false);
    const float* of = &fields.of[0][0][0];
    add_super<L, I>(PackedArgs(w, b, 0, of, tile), reinterpret_cast<float*>(&sums[0]));
    if constexpr (I > 1) add_super<L, I>(PackedArgs(w, b, 8, of, tile), reinterpret_cast<float*>(&sums[1]));
  }
  sums[0].store(out, stride, rows);
  sums[1].store(out + 8, stride, rows);
}

template <class L>
inline void super_tiles(const PackedSource<L>& w, int64_t blocks, const XTile& x, int64_t rows, float* out,
                        int64_t stride) {
  if (rows > 4) return super_tile<L, 3>(w, blocks, x, rows, out, stride);
  if (rows > 2) return super_tile<L, 2>(w, blocks, x, rows, out, stride);
  super_tile<L, 1>(w, blocks, x, rows, out, stride);
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
