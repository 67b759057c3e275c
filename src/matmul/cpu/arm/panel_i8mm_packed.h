// Tiles of a packed panel of 4 or 8 bits with f16 scales for each 32 values (Q4_0, Q4_1, Q8_0), for a batch of a few
// answers: two or three pairs of rows of x by 8 outputs, or four pairs by 4. Assembly for the reasons of
// panel_i8mm_expanded.h.
//
//   two and four pairs  v8 … v15 float sums, v16 … v23 integer sums, v28 mask, the others weights, x and scales
//   three pairs         v8 … v19 float sums, v20 … v31 integer sums, v7 mask, v0 … v6 weights, x and scales
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/all_vectors.h"
#include "matmul/cpu/arm/panel_i8mm_packed_orders.h"
#include "matmul/cpu/arm/panel_i8mm_pairs.h"
#include "matmul/cpu/arm/panel_sdot.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#define INGOT_MOVE_8_SUMS(OP)                                                                       \
  OP " q8, q9, [%[acc]]\n\t" OP " q10, q11, [%[acc], #32]\n\t" OP " q12, q13, [%[acc], #64]\n\t" OP \
     " q14, q15, [%[acc], #96]\n\t"
#define INGOT_MOVE_12_SUMS(OP) \
  INGOT_MOVE_8_SUMS(OP) OP " q16, q17, [%[acc], #128]\n\t" OP " q18, q19, [%[acc], #160]\n\t"
// Blocks in this order: BYTES of weights and scales each; MORE goes on.
#define INGOT_LOAD_MASK(REG) "ldr q" REG ", [%[mask]]\n\t"
#define INGOT_PACKED_BLOCKS(SUMS, MASK, ORDER, BYTES, MORE)                                                           \
  asm volatile(SUMS("ldp") MASK ".p2align 6\n\t1:\n\t" ORDER "add %[w], %[w], #" BYTES "\n\tadd %[s], %[s], #" BYTES  \
                                "\n\tadd %[x], %[x], %[step]\n\t"                                                     \
                                "add %[xs], %[xs], %[step]\n\tadd %[xm], %[xm], %[step]\n\t" MORE                     \
                                "subs %[n], %[n], #1\n\tb.ne 1b\n\t" SUMS("stp")                                      \
               : [w] "+r"(a.w), [s] "+r"(a.scales), [x] "+r"(a.x), [xs] "+r"(a.x_scales), [xm] "+r"(a.x_sums),        \
                 [n] "+r"(a.n), [y] "+r"(a.y), [ys] "+r"(a.y_scales), [ym] "+r"(a.y_sums)                             \
               : [acc] "r"(acc), [mask] "r"(kNibbleMasks[L::kFlip == 0x88]), [step] "r"(a.step), [next] "r"(a.y_step) \
               : "cc", "memory", INGOT_ALL_VECTORS)
#define INGOT_ADVANCE_Y "add %[y], %[y], %[next]\n\tadd %[ys], %[ys], %[next]\n\tadd %[ym], %[ym], %[next]\n\t"

// Whether these tiles take this layout, where sums begin at 0.
template <class L>
constexpr bool kPackedTile = (L::kBits == 4 || L::kBits == 8) && L::kGroup == 32 && L::kScale == ScaleKind::kF16;

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
    static_assert(L::kPart == (L::kBits == 8 ? 544 : L::kMin ? 320 : 288));
  }
};

// I = 2 or 3 pairs of rows of x by 8 outputs, or 4 by 4: their float sums in `acc`.
template <class L, int I>
inline void add_packed(PackedArgs a, float* acc) {
  if constexpr (I == 2 && L::kBits == 8) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, "", INGOT_ORDER_PACKED_Q8_TWO, "544", "");
  } else if constexpr (I == 3 && L::kBits == 8) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, "", INGOT_ORDER_PACKED_Q8_THREE, "544", "");
  } else if constexpr (L::kBits == 8) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, "", INGOT_ORDER_PACKED_Q8_FOUR, "544", INGOT_ADVANCE_Y);
  } else if constexpr (I == 2 && L::kMin) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_MIN_TWO, "320", "");
  } else if constexpr (I == 2) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_TWO, "288", "");
  } else if constexpr (I == 3 && L::kMin) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, INGOT_LOAD_MASK("7"), INGOT_ORDER_PACKED_Q4_MIN_THREE, "320", "");
  } else if constexpr (I == 3) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_12_SUMS, INGOT_LOAD_MASK("7"), INGOT_ORDER_PACKED_Q4_THREE, "288", "");
  } else if constexpr (L::kMin) {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_MIN_FOUR, "320",
                        INGOT_ADVANCE_Y);
  } else {
    INGOT_PACKED_BLOCKS(INGOT_MOVE_8_SUMS, INGOT_LOAD_MASK("28"), INGOT_ORDER_PACKED_Q4_FOUR, "288", INGOT_ADVANCE_Y);
  }
}

#undef INGOT_MOVE_8_SUMS
#undef INGOT_MOVE_12_SUMS
#undef INGOT_LOAD_MASK
#undef INGOT_PACKED_BLOCKS
#undef INGOT_ORDER_PACKED_Q8_TWO
#undef INGOT_ORDER_PACKED_Q8_THREE
#undef INGOT_ORDER_PACKED_Q8_FOUR
#undef INGOT_ADVANCE_Y
#undef INGOT_ORDER_PACKED_Q4_TWO
#undef INGOT_ORDER_PACKED_Q4_MIN_TWO
#undef INGOT_ORDER_PACKED_Q4_THREE
#undef INGOT_ORDER_PACKED_Q4_MIN_THREE
#undef INGOT_ORDER_PACKED_Q4_FOUR
#undef INGOT_ORDER_PACKED_Q4_MIN_FOUR

template <class L, int I>
inline void packed_tile(const PackedSource<L>& w, int64_t blocks, const XTile& x, int at, int64_t rows, float* out,
                        int64_t stride) {
  PairSums<I> sums;
  sums.clear();
  add_packed<L, I>(PackedArgs(w, blocks, at, x, x), reinterpret_cast<float*>(&sums));
  sums.store(out, stride, rows);
}

// Tile x of six rows and tile y of the one or two after them, `rows` in all, by 16 outputs: the weights are
// read and unpacked once for both.
template <class L>
inline void packed_eight(const PackedSource<L>& w, int64_t blocks, const XTile& x, const XTile& y, int64_t rows,
                         float* out, int64_t stride) {
  for (int at = 0; at < kPanelRows; at += 4) {
    float32x4_t sums[4][2] = {};
    add_packed<L, 4>(PackedArgs(w, blocks, at, x, y), reinterpret_cast<float*>(&sums));
    for (int i = 0; i < 4; ++i) {
      vst1q_f32(out + 2 * i * stride + at, vuzp1q_f32(sums[i][0], sums[i][1]));
      if (2 * i + 1 < rows) vst1q_f32(out + (2 * i + 1) * stride + at, vuzp2q_f32(sums[i][0], sums[i][1]));
    }
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
