// One row of x: the products of packed panels by sdot.
//
// 16 bytes of a panel are 8 values of two rows; x is read with each run of 8 twice (XRow::wide), so a product leaves
// two lanes for each row, which one pairwise addition joins. The products of 4 and 8 bits are assembly: g++ 12 puts the
// ones that use the same sum side by side, which costs a tenth.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#define INGOT_ZERO_8                                                                     \
  "movi %[s0].4s, #0\n\tmovi %[s1].4s, #0\n\tmovi %[s2].4s, #0\n\tmovi %[s3].4s, #0\n\t" \
  "movi %[s4].4s, #0\n\tmovi %[s5].4s, #0\n\tmovi %[s6].4s, #0\n\tmovi %[s7].4s, #0\n\t"
#define INGOT_SDOT(S, W, X) "sdot %[s" S "].4s, " W ".16b, " X ".16b\n\t"
#define INGOT_SDOT_4(A, B, C, D, P, Q, R, T, X) \
  INGOT_SDOT(A, P, X) INGOT_SDOT(B, Q, X) INGOT_SDOT(C, R, X) INGOT_SDOT(D, T, X)
// LOW and HIGH unpack the nibbles of a register: of the even run to another one, of the odd run in place.
#define INGOT_LOW_4(LOW, A, B, C, D) LOW("v20", A) LOW("v21", B) LOW("v22", C) LOW("v23", D)
#define INGOT_HIGH_4(HIGH, A, B, C, D) HIGH(A) HIGH(B) HIGH(C) HIGH(D)
#define INGOT_TWO_RUNS(AT0, AT1, AT2, AT3, LOW, HIGH, EVEN, ODD)                                                   \
  "ldp q24, q25, [%[q], #" AT0 "]\n\tldp q26, q27, [%[q], #" AT1                                                   \
  "]\n\t" INGOT_LOW_4(LOW, "v24", "v25", "v26",                                                                    \
                      "v27") "ldp q28, q29, [%[q], #" AT2 "]\n\tldp q30, q31, [%[q], #" AT3                        \
                             "]\n\t" INGOT_SDOT_4("0", "1", "2", "3", "v20", "v21", "v22", "v23", EVEN)            \
                                 INGOT_LOW_4(LOW, "v28", "v29", "v30", "v31")                                      \
                                     INGOT_HIGH_4(HIGH, "v24", "v25", "v26", "v27")                                \
                                         INGOT_SDOT_4("4", "5", "6", "7", "v20", "v21", "v22", "v23", EVEN)        \
                                             INGOT_HIGH_4(HIGH, "v28", "v29", "v30", "v31")                        \
                                                 INGOT_SDOT_4("0", "1", "2", "3", "v24", "v25", "v26", "v27", ODD) \
                                                     INGOT_SDOT_4("4", "5", "6", "7", "v28", "v29", "v30", "v31", ODD)
#define INGOT_LOW_PLAIN(T, W) "and " T ".16b, " W ".16b, %[mask].16b\n\t"
#define INGOT_HIGH_PLAIN(W) "ushr " W ".16b, " W ".16b, #4\n\t"
#define INGOT_LOW_SIGNED(T, W) "shl " T ".16b, " W ".16b, #4\n\t"
#define INGOT_HIGH_SIGNED(W) "and " W ".16b, " W ".16b, %[mask].16b\n\t"
#define INGOT_BYTE_RUN(AT0, AT1, AT2, AT3, X)                                                          \
  "ldp q24, q25, [%[q], #" AT0 "]\n\tldp q26, q27, [%[q], #" AT1 "]\n\tldp q28, q29, [%[q], #" AT2     \
  "]\n\t"                                                                                              \
  "ldp q30, q31, [%[q], #" AT3 "]\n\t" INGOT_SDOT_4("0", "1", "2", "3", "v24", "v25", "v26", "v27", X) \
      INGOT_SDOT_4("4", "5", "6", "7", "v28", "v29", "v30", "v31", X)
#define INGOT_EIGHT_SUMS(MODE)                                                                                      \
  [s0] MODE(sum[0]), [s1] MODE(sum[1]), [s2] MODE(sum[2]), [s3] MODE(sum[3]), [s4] MODE(sum[4]), [s5] MODE(sum[5]), \
      [s6] MODE(sum[6]), [s7] MODE(sum[7])
#define INGOT_SIGNED_NIBBLES                                                                              \
  "ldp q16, q17, [%[x]]\n\t" INGOT_TWO_RUNS(                                                              \
      "0", "32", "64", "96", INGOT_LOW_SIGNED, INGOT_HIGH_SIGNED, "v16",                                  \
      "v17") "ldp q16, q17, [%[x], #32]\n\t" INGOT_TWO_RUNS("128", "160", "192", "224", INGOT_LOW_SIGNED, \
                                                            INGOT_HIGH_SIGNED, "v16", "v17")
#define INGOT_PLAIN_NIBBLES                                                                              \
  "ldp q16, q17, [%[x]]\n\t" INGOT_TWO_RUNS(                                                             \
      "0", "32", "64", "96", INGOT_LOW_PLAIN, INGOT_HIGH_PLAIN, "v16",                                   \
      "v17") "ldp q16, q17, [%[x], #32]\n\t" INGOT_TWO_RUNS("128", "160", "192", "224", INGOT_LOW_PLAIN, \
                                                            INGOT_HIGH_PLAIN, "v16", "v17")
#define INGOT_BYTES                                                                                     \
  "ldp q16, q17, [%[x]]\n\t" INGOT_BYTE_RUN("0", "32", "64", "96", "v16")                               \
      INGOT_BYTE_RUN("128", "160", "192", "224", "v17") "ldp q16, q17, [%[x], #32]\n\t" INGOT_BYTE_RUN( \
          "256", "288", "320", "352", "v16") INGOT_BYTE_RUN("384", "416", "448", "480", "v17")
// A group of four blocks of nibbles, with prefetch.
#define INGOT_FETCH_4(AT)                                                          \
  "prfm pldl3keep, [%[q], #10240 + " AT "]\n\tprfm pldl3keep, [%[q], #10304 + " AT \
  "]\n\t"                                                                          \
  "prfm pldl3keep, [%[q], #10368 + " AT "]\n\tprfm pldl3keep, [%[q], #10432 + " AT "]\n\t"
#define INGOT_NIBBLES_AT(AT, XAT, LOW, HIGH)                           \
  INGOT_FETCH_4(AT)                                                    \
  "ldp q16, q17, [%[x], #" XAT "]\n\t" INGOT_TWO_RUNS(                 \
      AT " + 0", AT " + 32", AT " + 64", AT " + 96", LOW, HIGH, "v16", \
      "v17") "ldp q16, q17, [%[x], #" XAT                              \
             " + 32]\n\t" INGOT_TWO_RUNS(AT " + 128", AT " + 160", AT " + 192", AT " + 224", LOW, HIGH, "v16", "v17")
#define INGOT_GROUP(LOW, HIGH)                                                                                        \
  asm(INGOT_ZERO_8 "prfm pldl3keep, [%[q], #11264]\n\t" INGOT_NIBBLES_AT("0", "0", LOW, HIGH) INGOT_NIBBLES_AT(       \
          "256", "64", LOW, HIGH) INGOT_NIBBLES_AT("512", "128", LOW, HIGH) INGOT_NIBBLES_AT("768", "192", LOW, HIGH) \
      : INGOT_EIGHT_SUMS("=&w")                                                                                       \
      : [q] "r"(q), [x] "r"(x), [mask] "w"(mask), "m"(*bytes), "m"(*runs)                                             \
      : INGOT_TEMPORARIES)
// With sums that begin at zero, or go on.
#define INGOT_PRODUCTS(TEXT)                                                \
  if constexpr (kFirst) {                                                   \
    asm(INGOT_ZERO_8 TEXT                                                   \
        : INGOT_EIGHT_SUMS("=&w")                                           \
        : [q] "r"(q), [x] "r"(x), [mask] "w"(mask), "m"(*bytes), "m"(*runs) \
        : INGOT_TEMPORARIES);                                               \
  } else {                                                                  \
    asm(TEXT                                                                \
        : INGOT_EIGHT_SUMS("+w")                                            \
        : [q] "r"(q), [x] "r"(x), [mask] "w"(mask), "m"(*bytes), "m"(*runs) \
        : INGOT_TEMPORARIES);                                               \
  }
#define INGOT_TEMPORARIES \
  "v16", "v17", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

// The sums of runs [first, first + kRuns) of a block, 8 pairs of rows. x: the doubled runs of these. mask: 15 in each
// byte, or 0xf0 for signed nibbles; loaded, since a constant from `movi` halves the rate of what reads it. kFirst: the
// sums begin here; only whole blocks of 4 or 8 bits can go on.
template <class L, int kRuns, bool kFirst = true>
inline void solo_products(const PackedSource<L>& w, int64_t b, int first, const int8_t* x, uint8x16_t mask,
                          int32x4_t (&sum)[8]) {
  const uint8_t* q = w.runs_of(b);
  const auto* bytes = reinterpret_cast<const int8_t(*)[L::kRunBytes]>(q);
  const auto* runs = reinterpret_cast<const int8_t(*)[16 * kRuns]>(x);
  if constexpr (L::kBits == 4 && L::kFlip != 0 && kRuns == 4) {
    INGOT_PRODUCTS(INGOT_SIGNED_NIBBLES)
  } else if constexpr (L::kBits == 4 && !L::kTable && kRuns == 4) {
    INGOT_PRODUCTS(INGOT_PLAIN_NIBBLES)
  } else if constexpr (L::kBits == 8 && kRuns == 4) {
    INGOT_PRODUCTS(INGOT_BYTES)
  } else {
#pragma GCC unroll 2
    for (int p = 0; p < kRuns / 2; ++p) {
      const int8x16_t even_x = vld1q_s8(x + 32 * p), odd_x = vld1q_s8(x + 32 * p + 16);
      Weights even[4], odd[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) w.runs(b, first / 2 + p, 4 * v, even[v], odd[v]);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        sum[i] = vdotq_s32(p == 0 ? vdupq_n_s32(0) : sum[i], (int8x16_t)even[i / 2].pair[i % 2], even_x);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) sum[i] = vdotq_s32(sum[i], (int8x16_t)odd[i / 2].pair[i % 2], odd_x);
    }
  }
}

// The same for a whole group of 128 with nibbles.
template <class L>
inline void solo_group(const uint8_t* q, const int8_t* x, uint8x16_t mask, int32x4_t (&sum)[8]) {
  const auto* bytes = reinterpret_cast<const int8_t(*)[4 * L::kRunBytes]>(q);
  const auto* runs = reinterpret_cast<const int8_t(*)[2 * kPanelCoarse]>(x);
  if constexpr (L::kFlip != 0) {
    INGOT_GROUP(INGOT_LOW_SIGNED, INGOT_HIGH_SIGNED);
  } else {
    INGOT_GROUP(INGOT_LOW_PLAIN, INGOT_HIGH_PLAIN);
  }
}

#undef INGOT_ZERO_8
#undef INGOT_SDOT
#undef INGOT_SDOT_4
#undef INGOT_LOW_4
#undef INGOT_HIGH_4
#undef INGOT_TWO_RUNS
#undef INGOT_LOW_PLAIN
#undef INGOT_HIGH_PLAIN
#undef INGOT_LOW_SIGNED
#undef INGOT_HIGH_SIGNED
#undef INGOT_BYTE_RUN
#undef INGOT_EIGHT_SUMS
#undef INGOT_SIGNED_NIBBLES
#undef INGOT_PLAIN_NIBBLES
#undef INGOT_BYTES
#undef INGOT_PRODUCTS
#undef INGOT_FETCH_4
#undef INGOT_NIBBLES_AT
#undef INGOT_GROUP
#undef INGOT_TEMPORARIES

alignas(16) inline const uint8_t kNibbleMasks[2][16] = {
    {15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15},
    {240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 240}};

// The lines that a block takes, prefetched some 10 KB ahead into the L3 cache (16 KB for bytes): the hardware's
// own prefetch reaches 56 GB/s on two Neoverse-V1 cores, this 79.
// No line may be left out: one that is not asked for costs as much as some blocks.
template <class L, int64_t kBytes = L::kRunBytes + L::kHead>
inline void fetch_block(const uint8_t* p) {
  constexpr int64_t kAhead = L::kBits == 8 ? 16 << 10 : 10 << 10;
#pragma GCC unroll 10
  for (int64_t line = 0; line < kBytes; line += 64) __builtin_prefetch(p + kAhead + line, 0, 1);
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
