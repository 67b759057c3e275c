// One row of x and blocks of 4 bits with a scale for each 32: the products of a block and, between them, what is left
// to do for the block before.
//
// A Neoverse-V1 begins four vector operations in a cycle where they are ready, and a block's last ones, which wait for
// each other, would keep the next block's products from getting in: woven by hand Q4_1 takes 29.7 cycles in place of
// 32, Q4_0 26.9 and Q4_K 33.6 in place of 42. These orders were found by trying a million neighbours of that
// one: 26.1, 23.8 and 30.7 in the first-level cache. Conversions take the place of two operations each, so bytes become
// floats without: with 0x87 above it and shifted by 15 bits, byte b is the float 256 + b, and factor · (256 + b) − 256
// · factor is exact.
//
// Registers: v0 to v7 the products, of two rows each; v16 and v17 x, v18 the mask, v19 x's scale and sum, v20 to v25
// weights, v26 to v31 scales and mins; where the compiler wants them, the integer sums of the block before (d) and the
// sums of all blocks (a).
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/panel_sdot.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Zero, product, conversion (of 1/16 of it), by x's scale, to the sums, mins to the sums, two pairs of rows joined.
#define Z(A) "movi v" #A ".4s, #0\n\t"
#define P(SUM, W, X) "sdot v" #SUM ".4s, v" #W ".16b, v" #X ".16b\n\t"
#define C(D) "scvtf %[d" #D "].4s, %[d" #D "].4s\n\t"
#define C16(D) "scvtf %[d" #D "].4s, %[d" #D "].4s, #4\n\t"
#define S(V) "fmul v" #V ".4s, v" #V ".4s, v19.s[0]\n\t"
#define A(I, SCALE) "fmla %[a" #I "].4s, %[d" #I "].4s, v" #SCALE ".4s\n\t"
#define M(I, MIN) "fmla %[a" #I "].4s, v" #MIN ".4s, v19.s[1]\n\t"
#define J(D, V, W) "addp %[d" #D "].4s, v" #V ".4s, v" #W ".4s\n\t"
// Nibbles.
#define AND(TO, W) "and v" #TO ".16b, v" #W ".16b, v18.16b\n\t"
#define USHR(TO, W) "ushr v" #TO ".16b, v" #W ".16b, #4\n\t"
#define SHL(TO, W) "shl v" #TO ".16b, v" #W ".16b, #4\n\t"
// f16 as floats; bytes with another above each, these moved up by 15 bits, and what makes 256 + b the field.
#define F1(TO, H) "fcvtl v" #TO ".4s, v" #H ".4h\n\t"
#define F2(TO, H) "fcvtl2 v" #TO ".4s, v" #H ".8h\n\t"
#define T1(TO, V, W) "zip1 v" #TO ".16b, v" #V ".16b, v" #W ".16b\n\t"
#define T2(TO, V, W) "zip2 v" #TO ".16b, v" #V ".16b, v" #W ".16b\n\t"
#define U1(TO, V) "ushll v" #TO ".4s, v" #V ".4h, #15\n\t"
#define U2(TO, V) "ushll2 v" #TO ".4s, v" #V ".8h, #15\n\t"
#define EX(V) "fmla v31.4s, v30.4s, v" #V ".4s\n\t"
// Loads, and weights asked for from memory.
#define LD(A, FROM, AT) "ldr d" #A ", [%[" #FROM "], #" #AT "]\n\t"
#define L1(A, FROM, AT) "ldr q" #A ", [%[" #FROM "], #" #AT "]\n\t"
#define L2(A, B, FROM, AT) "ldp q" #A ", q" #B ", [%[" #FROM "], #" #AT "]\n\t"
#define ASK(AT) "prfm pldl3keep, [%[q], #" #AT "]\n\t"

// Q4_0: f16 scales of the block before at f.
#define INGOT_WOVEN_Q4                                                                                                 \
  L2(20, 21, q, 0)                                                                                                     \
  SHL(24, 20)                                                                                                          \
  L2(26, 27, f, 0) L2(22, 23, q, 32) Z(0) ASK(10496) Z(2) Z(6) SHL(25, 21) ASK(10240) L2(16, 17, x, 0) Z(1)            \
      P(0, 24, 16) P(1, 25, 16) SHL(24, 22) F1(28, 26) Z(5) SHL(25, 23) F2(31, 27) L1(18, masks, 0) AND(20, 20) Z(3)   \
          AND(21, 21) P(3, 25, 16) P(1, 21, 17) P(0, 20, 17) L2(20, 21, q, 64) Z(7) SHL(25, 21) P(5, 25, 16) Z(4)      \
              AND(22, 22) F1(30, 27) AND(23, 23) ASK(10432) P(3, 23, 17) P(2, 24, 16) P(2, 22, 17) L2(22, 23, q, 96)   \
                  SHL(24, 20) AND(21, 21) AND(20, 20) SHL(25, 23) P(4, 24, 16) LD(19, before, 0) AND(23, 23)           \
                      P(7, 25, 16) F2(29, 26) SHL(24, 22) C16(0) C16(2) P(4, 20, 17) P(6, 24, 16) C16(3) C16(1)        \
                          P(5, 21, 17) S(28) L2(20, 21, q, 128) SHL(25, 21) AND(22, 22) S(30) P(6, 22, 17)             \
                              P(7, 23, 17) SHL(24, 20) L2(22, 23, q, 160) L2(16, 17, x, 32) S(31) P(1, 25, 16)         \
                                  SHL(25, 23) P(0, 24, 16) AND(20, 20) AND(21, 21) P(1, 21, 17) P(0, 20, 17)           \
                                      L2(20, 21, q, 192) SHL(24, 22) AND(23, 23) P(2, 24, 16) P(3, 25, 16) SHL(25, 21) \
                                          AND(22, 22) P(2, 22, 17) P(3, 23, 17) L2(22, 23, q, 224) P(5, 25, 16) S(29)  \
                                              AND(21, 21) SHL(25, 23) AND(23, 23) SHL(24, 20) A(2, 30) P(5, 21, 17)    \
                                                  AND(20, 20) A(3, 31) P(4, 24, 16) SHL(24, 22) P(7, 25, 16) A(0, 28)  \
                                                      ASK(10304) AND(22, 22) P(6, 24, 16) ASK(10368) P(6, 22, 17)      \
                                                          A(1, 29) P(4, 20, 17) J(0, 0, 1) P(7, 23, 17) J(2, 4, 5)     \
                                                              J(1, 2, 3) J(3, 6, 7)

// Q4_1: f16 scales and mins.
#define INGOT_WOVEN_MIN                                                                                                \
  L2(26, 27, f, 0)                                                                                                     \
  L2(20, 21, q, 0)                                                                                                     \
  L1(18, masks, 0) L2(22, 23, q, 32) Z(1) ASK(10496) Z(4) LD(19, before, 0) Z(0) F1(30, 27) AND(25, 21) AND(24, 20)    \
      USHR(20, 20) L2(16, 17, x, 0) F2(29, 26) P(0, 24, 16) AND(24, 22) P(1, 25, 16) AND(25, 23) USHR(22, 22)          \
          USHR(23, 23) Z(2) Z(3) USHR(21, 21) Z(5) F2(31, 27) P(2, 24, 16) P(1, 21, 17) P(0, 20, 17) L2(20, 21, q, 64) \
              F1(28, 26) P(3, 25, 16) P(2, 22, 17) C(0) ASK(10368) AND(25, 21) Z(6) Z(7) AND(24, 20) P(3, 23, 17)      \
                  L2(22, 23, q, 96) P(5, 25, 16) C(1) P(4, 24, 16) AND(25, 23) USHR(21, 21) USHR(20, 20) S(30)         \
                      USHR(23, 23) S(28) ASK(10304) AND(24, 22) USHR(22, 22) S(31) P(4, 20, 17) P(5, 21, 17)           \
                          P(7, 25, 16) L2(20, 21, q, 128) C(3) P(6, 24, 16) AND(24, 20) P(7, 23, 17) P(6, 22, 17)      \
                              S(29) C(2) L2(22, 23, q, 160) AND(25, 21) ASK(10240) L2(16, 17, x, 32) A(0, 28)          \
                                  USHR(21, 21) P(0, 24, 16) P(1, 25, 16) AND(25, 23) AND(24, 22) P(2, 24, 16)          \
                                      L2(26, 27, f, 32) P(1, 21, 17) USHR(20, 20) USHR(22, 22) P(3, 25, 16)            \
                                          USHR(23, 23) F1(28, 26) P(0, 20, 17) L2(20, 21, q, 192) AND(24, 20) A(1, 29) \
                                              P(4, 24, 16) P(2, 22, 17) P(3, 23, 17) L2(22, 23, q, 224) AND(24, 22)    \
                                                  F2(29, 26) ASK(10432) AND(25, 21) P(5, 25, 16) USHR(21, 21) A(2, 30) \
                                                      F1(30, 27) AND(25, 23) A(3, 31) P(6, 24, 16) USHR(22, 22)        \
                                                          USHR(20, 20) J(1, 2, 3) M(1, 29) F2(31, 27) P(7, 25, 16)     \
                                                              M(3, 31) J(0, 0, 1) P(5, 21, 17) P(4, 20, 17) M(0, 28)   \
                                                                  USHR(23, 23) P(6, 22, 17) P(7, 23, 17) M(2, 30)      \
                                                                      J(2, 4, 5) J(3, 6, 7)

// Q4_K: bytes of scales and mins at f, of a super-block whose SuperFields are at super.
#define INGOT_WOVEN_SUPER                                                                                              \
  L1(18, masks, 0)                                                                                                     \
  L2(20, 21, q, 0)                                                                                                     \
  Z(6) L2(26, 27, f, 0) L2(22, 23, q, 32) L1(28, masks, 32) AND(25, 21) L2(16, 17, x, 0) Z(1) Z(5) Z(0) Z(4) AND(      \
      24, 20) T1(29, 26, 28) P(1, 25, 16) P(0, 24, 16) AND(24, 22) USHR(20, 20) AND(25, 23) ASK(10496) USHR(23, 23)    \
      T2(26, 26, 28) ASK(10304) USHR(21, 21) P(0, 20, 17) P(1, 21, 17) L2(20, 21, q, 64) L2(30, 31, super, 0)          \
          U1(28, 29) LD(19, before, 0) Z(7) Z(2) Z(3) P(3, 25, 16) USHR(22, 22) P(2, 24, 16) EX(28) P(3, 23, 17) P(    \
              2, 22, 17) U2(29, 29) L2(22, 23, q, 96) AND(25, 21) C(0) P(5, 25, 16) AND(24, 20) P(4, 24, 16)           \
              S(31) AND(24, 22) U1(28, 26) A(0, 31) L2(30, 31, super, 32) USHR(20, 20) USHR(21, 21) AND(25, 23) C(2)   \
                  EX(29) USHR(23, 23) USHR(22, 22) P(7, 25, 16) U2(29, 26) L1(26, masks, 32) P(6, 24, 16) P(4, 20, 17) \
                      P(5, 21, 17) ASK(10368) P(7, 23, 17) L2(20, 21, q, 128) AND(24, 20) C(1) S(31) P(6, 22, 17)      \
                          L2(22, 23, q, 160) AND(25, 21) A(1, 31) L2(30, 31, super, 64) EX(28) L2(16, 17, x, 32)       \
                              P(1, 25, 16) AND(25, 23) ASK(10240) USHR(20, 20) T1(28, 27, 26) P(0, 24, 16)             \
                                  USHR(21, 21) P(1, 21, 17) T2(27, 27, 26) ASK(10432) USHR(23, 23) AND(24, 22) S(31)   \
                                      A(2, 31) L2(30, 31, super, 96) P(2, 24, 16) USHR(22, 22) C(3) EX(29)             \
                                          P(3, 25, 16) P(0, 20, 17) L2(20, 21, q, 192) U1(29, 28) S(31) U2(28, 28)     \
                                              AND(25, 21) P(5, 25, 16) A(3, 31) L2(30, 31, super, 128) P(3, 23, 17)    \
                                                  AND(24, 20) USHR(20, 20) EX(29) P(2, 22, 17) L2(22, 23, q, 224)      \
                                                      AND(25, 23) U1(29, 27) M(0, 31) L2(30, 31, super, 160)           \
                                                          P(4, 24, 16) P(7, 25, 16) USHR(21, 21) EX(28) AND(24, 22)    \
                                                              U2(28, 27) M(1, 31) USHR(22, 22) USHR(23, 23)            \
                                                                  L2(30, 31, super, 192) P(6, 24, 16) J(0, 0, 1)       \
                                                                      EX(29) P(4, 20, 17) P(6, 22, 17) M(2, 31)        \
                                                                          L2(30, 31, super, 224) EX(28) P(7, 23, 17)   \
                                                                              P(5, 21, 17) M(3, 31) J(3, 6, 7)         \
                                                                                  J(2, 4, 5) J(1, 2, 3)

// For each four rows d and −256 · d, then the same of −dmin.
struct alignas(64) SuperFields {
  float32x4_t pair[8][2];

  void open(const uint8_t* super) {
    for (int v = 0; v < 8; ++v) {
      pair[v][0] = (float32x4_t)load_halves(super + 8 * v);
      if (v >= 4) pair[v][0] = vnegq_f32(pair[v][0]);
      pair[v][1] = vmulq_n_f32(pair[v][0], -256.0f);
    }
  }
};

// What a block takes: its runs and scales, the doubled runs of x and x's fields.
struct SoloBlock {
  const uint8_t *runs, *scales;
  const int8_t* x;
  const XBlock* fields;
};

#define INGOT_WOVEN(ORDER)                                                                                             \
  asm(ORDER                                                                                                            \
      : [d0] "+w"(dot[0]), [d1] "+w"(dot[1]), [d2] "+w"(dot[2]), [d3] "+w"(dot[3]), [a0] "+w"(acc[0]),                 \
        [a1] "+w"(acc[1]), [a2] "+w"(acc[2]), [a3] "+w"(acc[3])                                                        \
      : [q] "r"(now.runs), [x] "r"(now.x), [before] "r"(before.fields), [f] "r"(before.scales), [super] "r"(super),    \
        [masks] "r"(masks), "m"(*reinterpret_cast<const uint8_t(*)[256]>(now.runs)),                                   \
        "m"(*reinterpret_cast<const int8_t(*)[64]>(now.x)), "m"(*before.fields),                                       \
        "m"(*reinterpret_cast<const uint8_t(*)[L::kScaleBytes]>(before.scales)), "m"(*super), "m"(kSoloMasks)          \
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", \
        "v25", "v26", "v27", "v28", "v29", "v30", "v31")

alignas(16) inline const uint8_t kSoloMasks[3][16] = {
    {0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f},
    {0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0xf0},
    {0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87, 0x87}};

// The products of block `now` into dot, once those of `before` have gone from there to acc.
template <class L>
inline void weave(const SoloBlock& now, const SoloBlock& before, const SuperFields* super, int32x4_t (&dot)[4],
                  float32x4_t (&acc)[4]) {
  const uint8_t* masks = kSoloMasks[L::kFlip == 0x88];
  if constexpr (L::kScale == ScaleKind::kSuper) {
    INGOT_WOVEN(INGOT_WOVEN_SUPER);
  } else if constexpr (L::kMin) {
    INGOT_WOVEN(INGOT_WOVEN_MIN);
  } else {
    INGOT_WOVEN(INGOT_WOVEN_Q4);
  }
}

#undef Z
#undef P
#undef C
#undef C16
#undef S
#undef A
#undef M
#undef J
#undef AND
#undef USHR
#undef SHL
#undef F1
#undef F2
#undef T1
#undef T2
#undef U1
#undef U2
#undef EX
#undef LD
#undef L1
#undef L2
#undef ASK
#undef INGOT_WOVEN_Q4
#undef INGOT_WOVEN_MIN
#undef INGOT_WOVEN_SUPER
#undef INGOT_WOVEN

// The kinds that have it.
template <class L>
constexpr bool kWoven = L::kBits == 4 && L::kGroup == 32 && (L::kMin || L::kFlip == 0x88);

template <class L>
inline void solo_woven(const PackedSource<L>& w, int64_t blocks, const XRow& x, uint8x16_t mask, Floats (&sums)[4]) {
  constexpr int64_t kOfSuper = kPanelSuper / kPanelBlock;
  constexpr bool kSupers = L::kScale == ScaleKind::kSuper;
  const auto* runs = reinterpret_cast<const int8_t*>(x.wide);
  SuperFields super;
  float32x4_t acc[4] = {};
  int32x4_t pairs[8], dot[4];
  fetch_block<L>(w.runs_of(0));
  solo_products<L, 4>(w, 0, 0, runs, mask, pairs);
  for (int v = 0; v < 4; ++v) dot[v] = vpaddq_s32(pairs[2 * v], pairs[2 * v + 1]);
  SoloBlock now{w.runs_of(0), w.scales_of(0), runs, x.blocks};
  for (int64_t b = 1; b < blocks; ++b) {
    const SoloBlock before = now;
    if (kSupers && (b - 1) % kOfSuper == 0) super.open(w.super_of(b - 1));
    const int64_t step = L::kPart + (kSupers && b % kOfSuper == 0 ? L::kSuperBytes : 0);
    now = {before.runs + step, before.scales + step, before.x + 2 * kPanelBlock, before.fields + 1};
    if (kSupers && b % kOfSuper == 0) fetch_block<L, 1>(now.runs - L::kHead);
    weave<L>(now, before, &super, dot, acc);
  }
  for (int v = 0; v < 4; ++v) {
    const Floats scale = times(all(now.fields->scale), w.scale(blocks - 1, 4 * v));
    sums[v] = multiply_add(PackedSource<L>::floats((Ints)dot[v]), scale, (Floats)acc[v]);
    if constexpr (L::kMin) sums[v] = multiply_add(w.min(blocks - 1, 4 * v), all(now.fields->sum), sums[v]);
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
