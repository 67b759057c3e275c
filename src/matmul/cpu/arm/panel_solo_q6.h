// One row of x and blocks of 6 bits with scales for each 16 of a super-block, in assembly.
//
// Four rows at a time: two groups of products, and between them what is left to do for the four rows before. As in
// panel_solo_woven.h bytes become floats without a conversion: b + 128 with 0x87 above is 384 + b.
//
// Registers: v0 to v3 products, v4 to v9 weights, v10 and v11 what is made of them and of scales, v12 to v15 x, v16 the
// mask, v17 and v18 integer sums, v19 and v20 what the zero point takes off them, v21 x's scale, v22 to v25 scales, v26
// and v27 d; the sums of all blocks where the compiler wants them.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/panel_sdot.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#define INGOT_SDOT(S, W, X) "sdot v" S ".4s, v" W ".16b, v" X ".16b\n\t"
#define INGOT_SDOT_SIX_BITS(S, W, X) "and v10.16b, v" W ".16b, v16.16b\n\t" INGOT_SDOT(S, "10", X)
// The fourth run lies in the highest two bits of the three others.
#define INGOT_OPEN_FOURTH_RUN(A, B, C) \
  "ushr v" C ".16b, v" C ".16b, #2\n\tsri v" C ".16b, v" B ".16b, #4\n\tsri v" C ".16b, v" A ".16b, #6\n\t"
#define INGOT_FOUR_ROWS(A, B, C, T0, T1, T2, T3, T4)                                                                 \
  "ldp q4, q5, [%[q], #" A "]\n\tldp q6, q7, [%[q], #" B "]\n\tldp q8, q9, [%[q], #" C                               \
  "]\n\t"                                                                                                            \
  "movi v0.4s, #0\n\tmovi v1.4s, #0\n\tmovi v2.4s, #0\n\tmovi v3.4s, #0\n\t" INGOT_SDOT_SIX_BITS("0", "4", "12")     \
      INGOT_SDOT_SIX_BITS("1", "5", "12") T0 INGOT_SDOT_SIX_BITS("2", "8", "14") INGOT_SDOT_SIX_BITS("3", "9", "14") \
          T1 INGOT_SDOT_SIX_BITS("0", "6", "13") INGOT_SDOT_SIX_BITS("1", "7", "13")                                 \
              T2 INGOT_OPEN_FOURTH_RUN("4", "6", "8") T3 INGOT_OPEN_FOURTH_RUN("5", "7", "9")                        \
                  T4 INGOT_SDOT("2", "8", "15") INGOT_SDOT("3", "9", "15")
#define INGOT_JOIN_PAIRS "addp v17.4s, v0.4s, v1.4s\n\taddp v18.4s, v2.4s, v3.4s\n\t"
// Of rows I: their d at AT, the scales of both groups in registers G and H, widened by WIDEN.
#define INGOT_WIDEN_LOW_ROWS(G) "ushll v11.4s, v" G ".4h, #15\n\t"
#define INGOT_WIDEN_HIGH_ROWS(G) "ushll2 v11.4s, v" G ".8h, #15\n\t"
#define INGOT_TAIL_0(AT, WIDEN, G) "ldp q26, q27, [%[super], #" AT "]\n\tsub v17.4s, v17.4s, v19.4s\n\t" WIDEN(G)
#define INGOT_TAIL_1 "scvtf v17.4s, v17.4s\n\tfmla v27.4s, v26.4s, v11.4s\n\tsub v18.4s, v18.4s, v20.4s\n\t"
#define INGOT_TAIL_2(AT, WIDEN, H) WIDEN(H) "fmul v27.4s, v27.4s, v21.s[0]\n\tscvtf v18.4s, v18.4s\n\t"
#define INGOT_TAIL_3(AT, I) \
  "fmla %[a" I "].4s, v17.4s, v27.4s\n\tldr q27, [%[super], #16 + " AT "]\n\tfmla v27.4s, v26.4s, v11.4s\n\t"
#define INGOT_TAIL_4(I) "fmul v27.4s, v27.4s, v21.s[0]\n\tfmla %[a" I "].4s, v18.4s, v27.4s\n\t"
#define INGOT_WOVEN_FOUR_ROWS(A, B, C, AT, I, WIDEN, G, H)                                                            \
  INGOT_FOUR_ROWS(A, B, C, INGOT_TAIL_0(AT, WIDEN, G), INGOT_TAIL_1, INGOT_TAIL_2(AT, WIDEN, H), INGOT_TAIL_3(AT, I), \
                  INGOT_TAIL_4(I))                                                                                    \
  INGOT_JOIN_PAIRS

// For each four rows d and −384 · d.
struct alignas(64) SixFields {
  float32x4_t pair[4][2];

  void open(const uint8_t* super) {
    for (int v = 0; v < 4; ++v) {
      pair[v][0] = (float32x4_t)load_halves(super + 8 * v);
      pair[v][1] = vmulq_n_f32(pair[v][0], -384.0f);
    }
  }
};

alignas(16) inline const uint8_t kSixMasks[3][16] = {
    {0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f},
    {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80},
    {0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87}};

// Adds a block to the 16 sums: its runs at q, behind the scales of its two groups.
inline void add_six(const uint8_t* q, const int8_t* x, const XBlock& block, const SixFields& super,
                    float32x4_t (&acc)[4]) {
  asm("ldp q22, q24, [%[q], #-32]\n\tldp q16, q10, [%[masks]]\n\tldr q11, [%[masks], #32]\n\tldr s21, [%[block]]\n\t"
      "ldp q12, q13, [%[x]]\n\tldp q14, q15, [%[x], #32]\n\t"
      "add x9, %[block], #20\n\tld1r {v19.4s}, [x9]\n\tadd x9, %[block], #24\n\tld1r {v20.4s}, [x9]\n\t"
      "eor v22.16b, v22.16b, v10.16b\n\teor v24.16b, v24.16b, v10.16b\n\t"
      "zip2 v23.16b, v22.16b, v11.16b\n\tzip1 v22.16b, v22.16b, v11.16b\n\t"
      "zip2 v25.16b, v24.16b, v11.16b\n\tzip1 v24.16b, v24.16b, v11.16b\n\t"
      "shl v19.4s, v19.4s, #5\n\tshl v20.4s, v20.4s, #5\n\t" INGOT_FOUR_ROWS("0", "128", "256", "", "", "", "", "")
          INGOT_JOIN_PAIRS INGOT_WOVEN_FOUR_ROWS("32", "160", "288", "0", "0", INGOT_WIDEN_LOW_ROWS, "22", "24")
              INGOT_WOVEN_FOUR_ROWS("64", "192", "320", "32", "1", INGOT_WIDEN_HIGH_ROWS, "22", "24")
                  INGOT_WOVEN_FOUR_ROWS("96", "224", "352", "64", "2", INGOT_WIDEN_LOW_ROWS, "23", "25") INGOT_TAIL_0(
                      "96", INGOT_WIDEN_HIGH_ROWS, "23") INGOT_TAIL_1 INGOT_TAIL_2("96", INGOT_WIDEN_HIGH_ROWS, "25")
                      INGOT_TAIL_3("96", "3") INGOT_TAIL_4("3")
      : [a0] "+w"(acc[0]), [a1] "+w"(acc[1]), [a2] "+w"(acc[2]), [a3] "+w"(acc[3])
      : [q] "r"(q), [x] "r"(x), [block] "r"(&block), [super] "r"(&super), [masks] "r"(kSixMasks),
        "m"(*reinterpret_cast<const uint8_t(*)[416]>(q - 32)), "m"(*reinterpret_cast<const int8_t(*)[64]>(x)),
        "m"(block), "m"(super), "m"(kSixMasks)
      : "x9", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27");
}

// Of the kind with 6 bits. REQUIRES: a zero point of 32.
template <class L>
inline void solo_six(const PackedSource<L>& w, int64_t blocks, const XRow& x, Floats (&sums)[4]) {
  constexpr int64_t kOfSuper = kPanelSuper / kPanelBlock;
  static_assert(L::kHead == 32 && L::kRunBytes == 384);
  float32x4_t acc[4] = {};
  const auto* runs = reinterpret_cast<const int8_t*>(x.wide);
  for (int64_t s = 0; s < blocks; s += kOfSuper) {
    SixFields super;
    super.open(w.super_of(s));
    const uint8_t* q = w.runs_of(s);
    for (int64_t b = s; b < s + kOfSuper; ++b, q += L::kPart) {
      fetch_block<L>(q);
      add_six(q, runs + 64 * b, x.blocks[b], super, acc);
    }
  }
  for (int v = 0; v < 4; ++v) sums[v] = (Floats)acc[v];
}

#undef INGOT_SDOT
#undef INGOT_SDOT_SIX_BITS
#undef INGOT_OPEN_FOURTH_RUN
#undef INGOT_FOUR_ROWS
#undef INGOT_JOIN_PAIRS
#undef INGOT_WIDEN_LOW_ROWS
#undef INGOT_WIDEN_HIGH_ROWS
#undef INGOT_TAIL_0
#undef INGOT_TAIL_1
#undef INGOT_TAIL_2
#undef INGOT_TAIL_3
#undef INGOT_TAIL_4
#undef INGOT_WOVEN_FOUR_ROWS

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
