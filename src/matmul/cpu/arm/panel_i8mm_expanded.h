// The tile of three pairs of rows of x by 8 outputs of an expanded panel.
//
// It is assembly because it takes all 32 vector registers, and g++ 12 keeps sums in memory or copies zeros where it may
// choose. What the Neoverse-V1 wants: sums that begin with `movi #0`, and other sums' products between two of the same
// sum (four back-to-back smmla on one sum run at 2 a cycle, spread over 12 sums at 4).
// The order of a block's instructions is searched for (tools/search_orders.py): the core begins four vector operations
// in a cycle, a conversion counting for two, 24 cycles for a block of 32 by 6 rows and 8 outputs without mins, 27 with,
// 36 for two groups of 16, and about one for the zeros. Written run by run, conversions last, a block takes 28.7, 33
// and 40.6; as it is ordered 25.5, 29.5 and 37. What that does that the plain order does not: a result is not read by
// the next instruction but some later (`fmul` and `fmla` in turn, each reading what was just made, run at 2.7 a cycle,
// five apart at 3.2), and conversions begin among the last products.
//
//   v8 … v19   float sums, [pair of x][pair of outputs]
//   v20 … v31  integer sums of a group, likewise
//   v0 … v3    4 pairs of outputs, then their scales, then their mins      v4 … v6  3 pairs of x      v7  spare
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/all_vectors.h"
#include "matmul/cpu/arm/panel_i8mm_expanded_orders.h"
#include "matmul/cpu/arm/panel_i8mm_pairs.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#define INGOT_ZERO_INTS                                                                                                \
  "movi v20.4s, #0\n\tmovi v21.4s, #0\n\tmovi v22.4s, #0\n\tmovi v23.4s, #0\n\tmovi v24.4s, #0\n\tmovi v25.4s, #0\n\t" \
  "movi v26.4s, #0\n\tmovi v27.4s, #0\n\tmovi v28.4s, #0\n\tmovi v29.4s, #0\n\tmovi v30.4s, #0\n\tmovi v31.4s, #0\n\t"
#define INGOT_SMMLA4(A, B, C, D, X)                                   \
  "smmla v" A ".4s, v0.16b, " X ".16b\n\tsmmla v" B ".4s, v1.16b, " X \
  ".16b\n\t"                                                          \
  "smmla v" C ".4s, v2.16b, " X ".16b\n\tsmmla v" D ".4s, v3.16b, " X ".16b\n\t"
// A run: weights at w + W, x at x + X.
#define INGOT_RUN_PRODUCTS(W, X)                                                       \
  "ldp q0, q1, [%[w], #" W "]\n\tldp q4, q5, [%[x], #" X "]\n\tldp q2, q3, [%[w], #" W \
  "+32]\n\t"                                                                           \
  "ldr q6, [%[x], #" X "+32]\n\t" INGOT_SMMLA4("20", "21", "22", "23", "v4")           \
      INGOT_SMMLA4("24", "25", "26", "27", "v5") INGOT_SMMLA4("28", "29", "30", "31", "v6")
// One integer sum times scale S and the scale of x in v4, to its float sum.
#define INGOT_SCALE_SUM(ACC, INT, S, T) \
  "scvtf v" INT ".4s, v" INT ".4s\n\tfmul " T ".4s, v4.4s, " S ".4s\n\tfmla v" ACC ".4s, v" INT ".4s, " T ".4s\n\t"
#define INGOT_SCALE_4_SUMS(XS, A, B, C, D, E, F, G, H)                                               \
  "ldr q4, [%[xs], #" XS "]\n\t" INGOT_SCALE_SUM(A, E, "v0", "v5") INGOT_SCALE_SUM(B, F, "v1", "v6") \
      INGOT_SCALE_SUM(C, G, "v2", "v7") INGOT_SCALE_SUM(D, H, "v3", "v5")
#define INGOT_SCALES "ldp q0, q1, [%[s]]\n\tldp q2, q3, [%[s], #32]\n\t"
#define INGOT_ADD_GROUP                                                              \
  INGOT_SCALES INGOT_SCALE_4_SUMS("0", "8", "9", "10", "11", "20", "21", "22", "23") \
      INGOT_SCALE_4_SUMS("16", "12", "13", "14", "15", "24", "25", "26", "27")       \
          INGOT_SCALE_4_SUMS("32", "16", "17", "18", "19", "28", "29", "30", "31")
#define INGOT_MIN4(XM, A, B, C, D)                               \
  "ldr q4, [" XM "]\n\tfmla v" A ".4s, v0.4s, v4.4s\n\tfmla v" B \
  ".4s, v1.4s, v4.4s\n\t"                                        \
  "fmla v" C ".4s, v2.4s, v4.4s\n\tfmla v" D ".4s, v3.4s, v4.4s\n\t"
#define INGOT_ADD_MINS(XM)                                                                               \
  "ldp q0, q1, [%[s], #128]\n\tldp q2, q3, [%[s], #160]\n\t" INGOT_MIN4(XM ", #0", "8", "9", "10", "11") \
      INGOT_MIN4(XM ", #16", "12", "13", "14", "15") INGOT_MIN4(XM ", #32", "16", "17", "18", "19")
// Sums that begin with 0, or with those of the rows at `to` where `on` is not 0.
#define INGOT_LOAD_PAIR(AT, A, B, C, D)                                                \
  "ldp x9, x10, [%[to], #" AT "]\n\tldp q0, q1, [x9]\n\tldp q2, q3, [x10]\n\tzip1 v" A \
  ".4s, v0.4s, v2.4s\n\t"                                                              \
  "zip2 v" B ".4s, v0.4s, v2.4s\n\tzip1 v" C ".4s, v1.4s, v3.4s\n\tzip2 v" D ".4s, v1.4s, v3.4s\n\t"
#define INGOT_BEGIN_SUMS \
  "cbz %[on], 2f\n\t" INGOT_LOAD_PAIR("0", "8", "9", "10", "11") INGOT_LOAD_PAIR("16", "12", "13", "14", "15")         \
  INGOT_LOAD_PAIR("32", "16", "17", "18", "19") "b 3f\n\t2:\n\t"                                                     \
  "movi v8.4s, #0\n\tmovi v9.4s, #0\n\tmovi v10.4s, #0\n\tmovi v11.4s, #0\n\tmovi v12.4s, #0\n\tmovi v13.4s, #0\n\t"    \
  "movi v14.4s, #0\n\tmovi v15.4s, #0\n\tmovi v16.4s, #0\n\tmovi v17.4s, #0\n\tmovi v18.4s, #0\n\tmovi v19.4s, #0\n\t"  \
  "3:\n\t"
// The 2 x 4 vectors of a pair of rows of x to out and out + stride.
#define INGOT_STORE_PAIR(A, B, C, D)                                                                   \
  "uzp1 v0.4s, v" A ".4s, v" B ".4s\n\tuzp1 v1.4s, v" C ".4s, v" D ".4s\n\tuzp2 v2.4s, v" A ".4s, v" B \
  ".4s\n\t"                                                                                            \
  "uzp2 v3.4s, v" C ".4s, v" D ".4s\n\tldp x9, x10, [%[to]], #16\n\tstp q0, q1, [x9]\n\tstp q2, q3, [x10]\n\t"
#define INGOT_STORE_SUMS                 \
  INGOT_STORE_PAIR("8", "9", "10", "11") \
  INGOT_STORE_PAIR("12", "13", "14", "15") INGOT_STORE_PAIR("16", "17", "18", "19")
// What a loop of the tile reads: n blocks of weights and of x, 512 and `step` bytes apart (x for groups of 128: 192),
// with their scales; and for each block a line to ask for at `ahead` and `gap` and `far` bytes from there.
struct ThreeArgs {
  const uint8_t* w;
  const int8_t* x;
  const float *scales, *x_scales, *x_sums[2];
  int64_t n;
  const std::byte* ahead;
  int64_t gap, far, step;
};

// The loops write 8 outputs of each of the six rows to[0] … to[5]; `on`: these hold the sums so far.

// A loop over blocks, with STEP bytes of scales each; MORE goes on.
#define INGOT_BLOCKS(ORDER, STEP, MORE)                                                                             \
  INGOT_BEGIN_SUMS ".p2align 6\n\t1:\n\t" ORDER                                                                     \
                   "add %[w], %[w], #512\n\tadd %[x], %[x], %[step]\n\t"                                            \
                   "add %[s], %[s], #" STEP "\n\tadd %[xs], %[xs], %[step]\n\tadd %[ahead], %[ahead], #64\n\t" MORE \
                   "subs %[n], %[n], #1\n\tb.ne 1b\n\t" INGOT_STORE_SUMS
#define INGOT_OPERANDS                                                                                            \
  [w] "+r"(a.w), [x] "+r"(a.x), [s] "+r"(a.scales), [xs] "+r"(a.x_scales), [xm] "+r"(a.x_sums[0]), [n] "+r"(a.n), \
      [to] "+r"(to),                                                                                              \
      [ahead] "+r"(a.ahead)                                                                                       \
      : [on] "r"(on),                                                                                             \
        [gap] "r"(a.gap),                                                                                         \
        [far] "r"(a.far),                                                                                         \
        [step] "r"(a.step)                                                                                        \
      : "x9", "x10", "cc", "memory", INGOT_ALL_VECTORS

// Groups of 32.
template <bool kMin>
inline void three_blocks(ThreeArgs a, bool on, float* const* to) {
  if constexpr (kMin) {
    asm volatile(INGOT_BLOCKS(INGOT_ORDER_EXPANDED_32_MIN, "256", "add %[xm], %[xm], %[step]\n\t") : INGOT_OPERANDS);
  } else {
    asm volatile(INGOT_BLOCKS(INGOT_ORDER_EXPANDED_32, "128", "") : INGOT_OPERANDS);
  }
}

// Two groups of 16 in each block.
inline void three_halves(ThreeArgs a, bool on, float* const* to) {
  asm volatile(INGOT_BLOCKS(INGOT_ORDER_EXPANDED_16, "256", "") : INGOT_OPERANDS);
}

// Two groups of 16 with mins in each block.
inline void three_halves_min(ThreeArgs a, bool on, float* const* to) {
  asm volatile(INGOT_BEGIN_SUMS
      "1:\n\t" INGOT_ZERO_INTS INGOT_RUN_PRODUCTS("0", "0") INGOT_RUN_PRODUCTS("128", "48") INGOT_ADD_GROUP INGOT_ADD_MINS("%[xm]")
      "add %[s], %[s], #256\n\t" INGOT_ZERO_INTS INGOT_RUN_PRODUCTS("256", "96") INGOT_RUN_PRODUCTS("384", "144") INGOT_ADD_GROUP
      INGOT_ADD_MINS("%[xn]")
      "add %[w], %[w], #512\n\tadd %[x], %[x], %[step]\n\tadd %[s], %[s], #256\n\tadd %[xs], %[xs], %[step]\n\t"
      "add %[xm], %[xm], %[step]\n\tadd %[xn], %[xn], %[step]\n\tsubs %[n], %[n], #1\n\tb.ne 1b\n\t" INGOT_STORE_SUMS
      : [w] "+r"(a.w), [x] "+r"(a.x), [s] "+r"(a.scales), [xs] "+r"(a.x_scales), [xm] "+r"(a.x_sums[0]),
        [xn] "+r"(a.x_sums[1]), [n] "+r"(a.n), [to] "+r"(to)
      : [on] "r"(on), [step] "r"(a.step)
      : "x9", "x10", "cc", "memory", INGOT_ALL_VECTORS);
}

// Lines of the rows of x that come next.
#define INGOT_PREFETCH_NEAR "prfm pldl1keep, [%[ahead]]\n\t"
#define INGOT_PREFETCH_FAR "prfm pldl1keep, [%[ahead], %[gap]]\n\t"

// Groups of 128, the last perhaps shorter: n blocks of 32 in all.
#define INGOT_GROUPS(SUMS)                                                                                  \
  asm volatile(INGOT_BEGIN_SUMS "4:\n\t" INGOT_ZERO_INTS                                                    \
                                "mov x9, #4\n\tcmp %[n], #4\n\tcsel x9, %[n], x9, lt\n\t"                   \
                                "sub %[n], %[n], x9\n\t.p2align 6\n\t1:\n\t" INGOT_RUN_PRODUCTS("0", "0")   \
                                    INGOT_RUN_PRODUCTS("128", "48") INGOT_PREFETCH_NEAR INGOT_RUN_PRODUCTS( \
                                        "256", "96") INGOT_RUN_PRODUCTS("384", "144") INGOT_PREFETCH_FAR    \
               "add %[ahead], %[ahead], #64\n\t"                                                            \
               "add %[w], %[w], #512\n\tadd %[x], %[x], #192\n\tsubs x9, x9, #1\n\tb.ne 1b\n\t" SUMS        \
               "add %[s], %[s], #128\n\tadd %[xs], %[xs], #48\n\tcbnz %[n], 4b\n\t" INGOT_STORE_SUMS        \
               : INGOT_OPERANDS)
// By the scale of x alone.
#define INGOT_SCALE_BY_X(ACC, INT) "scvtf v" INT ".4s, v" INT ".4s\n\tfmla v" ACC ".4s, v" INT ".4s, v4.4s\n\t"
#define INGOT_SCALE_4_BY_X(XS, A, B, C, D, E, F, G, H)                                                \
  "ldr q4, [%[xs], #" XS "]\n\t" INGOT_SCALE_BY_X(A, E) INGOT_SCALE_BY_X(B, F) INGOT_SCALE_BY_X(C, G) \
      INGOT_SCALE_BY_X(D, H)
#define INGOT_ADD_ROWS                                                     \
  INGOT_SCALE_4_BY_X("0", "8", "9", "10", "11", "20", "21", "22", "23")    \
  INGOT_SCALE_4_BY_X("16", "12", "13", "14", "15", "24", "25", "26", "27") \
  INGOT_SCALE_4_BY_X("32", "16", "17", "18", "19", "28", "29", "30", "31")

template <bool kRow>
inline void three_groups(ThreeArgs a, bool on, float* const* to) {
  if constexpr (kRow) {
    INGOT_GROUPS(INGOT_ADD_ROWS);
  } else {
    INGOT_GROUPS(INGOT_ADD_GROUP);
  }
}

#undef INGOT_GROUPS
#undef INGOT_PREFETCH_NEAR
#undef INGOT_PREFETCH_FAR
#undef INGOT_SCALE_BY_X
#undef INGOT_SCALE_4_BY_X
#undef INGOT_ADD_ROWS

// One group of 128 or less: the integer sums alone, n blocks.
inline void three_ints(const uint8_t* w, const int8_t* x, int64_t n, int32_t* ints) {
  asm volatile(INGOT_ZERO_INTS
      "1:\n\t" INGOT_RUN_PRODUCTS("0", "0") INGOT_RUN_PRODUCTS("128", "48") INGOT_RUN_PRODUCTS("256", "96") INGOT_RUN_PRODUCTS("384", "144")
      "add %[w], %[w], #512\n\tadd %[x], %[x], #192\n\tsubs %[n], %[n], #1\n\tb.ne 1b\n\t"
      "stp q20, q21, [%[to]]\n\tstp q22, q23, [%[to], #32]\n\tstp q24, q25, [%[to], #64]\n\tstp q26, q27, [%[to], #96]\n\t"
      "stp q28, q29, [%[to], #128]\n\tstp q30, q31, [%[to], #160]\n\t"
      : [w] "+r"(w), [x] "+r"(x), [n] "+r"(n)
      : [to] "r"(ints)
      : "cc", "memory", INGOT_ALL_VECTORS);
}

#undef INGOT_ZERO_INTS
#undef INGOT_SMMLA4
#undef INGOT_RUN_PRODUCTS
#undef INGOT_SCALE_SUM
#undef INGOT_SCALE_4_SUMS
#undef INGOT_SCALES
#undef INGOT_ADD_GROUP
#undef INGOT_MIN4
#undef INGOT_ADD_MINS
#undef INGOT_LOAD_PAIR
#undef INGOT_BEGIN_SUMS
#undef INGOT_STORE_PAIR
#undef INGOT_STORE_SUMS
#undef INGOT_BLOCKS
#undef INGOT_OPERANDS
#undef INGOT_ORDER_EXPANDED_32
#undef INGOT_ORDER_EXPANDED_32_MIN
#undef INGOT_ORDER_EXPANDED_16

// Sums of groups of 128 with zero points.
template <class L>
inline void zeros_tile_of_three(const ExpandedSource<L>& w, int64_t first, int64_t end, const XTile& x, int at,
                                int64_t rows, float* out, int64_t stride) {
  constexpr int64_t kOfGroup = kPanelCoarse / kPanelBlock;
  PairSums<3> sums;
  if (first > 0) {
    sums.load(out, stride, rows);
  } else {
    sums.clear();
  }
  for (int64_t b = first; b < end; b += kOfGroup) {
    PairInts<3> ints;
    three_ints(w.runs_at(b * kPanelBlock) + kRun * at, x.run(b - first, 0), end - b < kOfGroup ? end - b : kOfGroup,
               reinterpret_cast<int32_t*>(&ints));
    add_sums(w, b / kOfGroup, 0, (b - first) / kOfGroup, 0, x, at, ints, sums);
  }
  sums.store(out, stride, rows);
}

// Lines of the rows of x that come next, asked for while these are multiplied: one for each block at each of these.
struct Ahead {
  const std::byte *first, *second, *third;
};

// As pair_tile() of panel_i8mm_pairs.h.
template <class L>
inline void tile_of_three(const ExpandedSource<L>& w, int64_t first, int64_t end, int64_t blocks, const XTile& x,
                          int at, int64_t rows, float* out, int64_t stride, const Ahead& ahead) {
  if constexpr (ExpandedLayout<L>::kZeros) {
    zeros_tile_of_three(w, first, end, x, at, rows, out, stride);
  } else {
    constexpr bool kRow = L::kScale == ScaleKind::kRow;
    const int64_t group = kRow ? 0 : L::kCoarse ? first / (kPanelCoarse / kPanelBlock) : first * L::kGroups;
    const ThreeArgs args{w.runs_at(first * kPanelBlock) + kRun * at,
                         x.q,
                         w.fields(group, 0) + 2 * at,
                         x.field(XTile::kScale, 0),
                         {x.field(L::kGroups == 1 ? XTile::kSum : XTile::kHalfSum, 0), x.field(XTile::kHalfSum + 1, 0)},
                         end - first,
                         ahead.first,
                         ahead.second - ahead.first,
                         ahead.third - ahead.first,
                         x.step};
    float spare[8] = {};  // of a row that is missing
    float* const to[6] = {
        out, out + stride, out + 2 * stride, out + 3 * stride, out + 4 * stride, rows > 5 ? out + 5 * stride : spare};
    if constexpr (L::kCoarse) {
      three_groups<kRow>(args, first > 0, to);
      for (int64_t r = 0; kRow && end == blocks && r < rows; ++r)
        for (int i = 0; i < 8; ++i) to[r][i] *= w.fields(0, 0)[2 * (at + i)];
    } else if constexpr (L::kGroups == 1) {
      three_blocks<L::kMin>(args, first > 0, to);
    } else if constexpr (L::kMin) {
      three_halves_min(args, first > 0, to);
    } else {
      three_halves(args, first > 0, to);
    }
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
