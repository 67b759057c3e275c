// The tiles of 3 or 4 queries by 16 keys or dimensions of floats, f16 or bf16 (not of 8-bit types): what a prompt's
// attention is made of, and an answer's where three or four heads share a KV head. For AArch64.
//
// They are assembly for the order of their products. Factors are lanes of registers, since a load that broadcasts takes
// a vector pipe as well, and 12 or 16 products lie between two of the same sum: 71 GFLOP/s on one Neoverse-V1 for
// floats, where g++ 12 orders the same tile for 45.
//
//   v16 … v31 sums, v0 … v3 four factors of each query, v4 … v7 what they meet, v12 … v15 the same as it is stored
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "ops/attention/cpu/attention_simd.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

#define INGOT_FMLA4(S0, S1, S2, S3, Q, LANE)                                             \
  "fmla v" S0 ".4s, v4.4s, v" Q ".s[" LANE "]\n\tfmla v" S1 ".4s, v5.4s, v" Q ".s[" LANE \
  "]\n\t"                                                                                \
  "fmla v" S2 ".4s, v6.4s, v" Q ".s[" LANE "]\n\tfmla v" S3 ".4s, v7.4s, v" Q ".s[" LANE "]\n\t"
#define INGOT_ROWS3(LANE)                        \
  INGOT_FMLA4("16", "17", "18", "19", "0", LANE) \
  INGOT_FMLA4("20", "21", "22", "23", "1", LANE) INGOT_FMLA4("24", "25", "26", "27", "2", LANE)
#define INGOT_ROWS4(LANE) INGOT_ROWS3(LANE) INGOT_FMLA4("28", "29", "30", "31", "3", LANE)
// 16 elements at register AT, plus OFF bytes.
#define INGOT_OPEN_F32(AT, OFF) "ldp q4, q5, [" AT ", #" OFF "]\n\tldp q6, q7, [" AT ", #" OFF "+32]\n\t"
#define INGOT_OPEN_F16(AT, OFF)                                                 \
  "ldp q12, q13, [" AT ", #" OFF                                                \
  "]\n\tfcvtl v4.4s, v12.4h\n\tfcvtl2 v5.4s, v12.8h\n\tfcvtl v6.4s, v13.4h\n\t" \
  "fcvtl2 v7.4s, v13.8h\n\t"
#define INGOT_OPEN_BF16(AT, OFF)                                 \
  "ldp q12, q13, [" AT ", #" OFF                                 \
  "]\n\tshll v4.4s, v12.4h, #16\n\tshll2 v5.4s, v12.8h, #16\n\t" \
  "shll v6.4s, v13.4h, #16\n\tshll2 v7.4s, v13.8h, #16\n\t"
#define INGOT_ZERO                                                                                                     \
  "movi v16.4s, #0\n\tmovi v17.4s, #0\n\tmovi v18.4s, #0\n\tmovi v19.4s, #0\n\tmovi v20.4s, #0\n\tmovi v21.4s, #0\n\t" \
  "movi v22.4s, #0\n\tmovi v23.4s, #0\n\tmovi v24.4s, #0\n\tmovi v25.4s, #0\n\tmovi v26.4s, #0\n\tmovi v27.4s, #0\n\t" \
  "movi v28.4s, #0\n\tmovi v29.4s, #0\n\tmovi v30.4s, #0\n\tmovi v31.4s, #0\n\t"
#define INGOT_FACTORS3 "ldr q0, [%[a]], #16\n\tldr q1, [%[b]], #16\n\tldr q2, [%[c]], #16\n\t"
#define INGOT_FACTORS4 INGOT_FACTORS3 "ldr q3, [%[d]], #16\n\t"
#define INGOT_VECTORS                                                                                            \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", \
      "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

#define INGOT_SCORE(FACTORS, ROWS, OPEN, D1, D2, D3, D4)                                                               \
  asm volatile(INGOT_ZERO "1:\n\t" FACTORS OPEN("%[k]", "0") ROWS("0") OPEN("%[k]", D1) ROWS("1") OPEN("%[k]", D2)     \
                   ROWS("2") OPEN("%[k]", D3) ROWS(                                                                    \
                       "3") "add %[k], %[k], #" D4                                                                     \
                            "\n\tsubs %[n], %[n], #1\n\tb.ne 1b\n\t"                                                   \
                            "stp q16, q17, [%[to]]\n\tstp q18, q19, [%[to], #32]\n\tstp q20, q21, [%[to1]]\n\t"        \
                            "stp q22, q23, [%[to1], #32]\n\tstp q24, q25, [%[to2]]\n\tstp q26, q27, [%[to2], #32]\n\t" \
                            "cbz %[to3], 2f\n\tstp q28, q29, [%[to3]]\n\tstp q30, q31, [%[to3], #32]\n\t2:\n\t"        \
               : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [k] "+r"(keys), [n] "+r"(n)                       \
               : [to] "r"(out), [to1] "r"(out + stride), [to2] "r"(out + 2 * stride),                                  \
                 [to3] "r"(R == 4 ? out + 3 * stride : nullptr)                                                        \
               : "cc", "memory", INGOT_VECTORS)

// Whether score_lanes() and mix_lanes() have tiles of R queries and D vectors for this type.
template <class S, int R, int D>
constexpr bool kLaneTile = (R == 3 || R == 4) && D == 4 && sizeof(typename S::Type) > 1;

// R queries against a group of keys. REQUIRES: dim is a multiple of 4.
template <class S, int R>
inline void score_lanes(const float* const* q, const std::byte* keys, int64_t dim, float* out, int64_t stride) {
  const float *a = q[0], *b = q[1], *c = q[2], *d = q[R - 1];
  int64_t n = dim / 4;
  if constexpr (__is_same(S, Stored<DType::kF32>)) {
    if constexpr (R == 4) {
      INGOT_SCORE(INGOT_FACTORS4, INGOT_ROWS4, INGOT_OPEN_F32, "64", "128", "192", "256");
    } else {
      INGOT_SCORE(INGOT_FACTORS3, INGOT_ROWS3, INGOT_OPEN_F32, "64", "128", "192", "256");
    }
  } else if constexpr (__is_same(S, Stored<DType::kF16>)) {
    if constexpr (R == 4) {
      INGOT_SCORE(INGOT_FACTORS4, INGOT_ROWS4, INGOT_OPEN_F16, "32", "64", "96", "128");
    } else {
      INGOT_SCORE(INGOT_FACTORS3, INGOT_ROWS3, INGOT_OPEN_F16, "32", "64", "96", "128");
    }
  } else {
    if constexpr (R == 4) {
      INGOT_SCORE(INGOT_FACTORS4, INGOT_ROWS4, INGOT_OPEN_BF16, "32", "64", "96", "128");
    } else {
      INGOT_SCORE(INGOT_FACTORS3, INGOT_ROWS3, INGOT_OPEN_BF16, "32", "64", "96", "128");
    }
  }
}

#define INGOT_VALUE(ROWS, OPEN, LANE) OPEN("%[v]", "0") "add %[v], %[v], %[step]\n\t" ROWS(LANE)
#define INGOT_MIX(FACTORS, ROWS, OPEN) \
  asm volatile(INGOT_ZERO "1:\n\t" FACTORS INGOT_VALUE(ROWS, OPEN, "0") INGOT_VALUE(ROWS, OPEN, "1")                  \
               INGOT_VALUE(ROWS, OPEN, "2") INGOT_VALUE(ROWS, OPEN, "3") "subs %[n], %[n], #1\n\tb.ne 1b\n\t"          \
               "stp q16, q17, [%[s]]\n\tstp q18, q19, [%[s], #32]\n\tstp q20, q21, [%[s], #64]\n\t"                    \
               "stp q22, q23, [%[s], #96]\n\tstp q24, q25, [%[s], #128]\n\tstp q26, q27, [%[s], #160]\n\t"              \
               "cbnz %[three], 2f\n\tstp q28, q29, [%[s], #192]\n\tstp q30, q31, [%[s], #224]\n\t2:\n\t"                \
               : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [v] "+r"(values), [n] "+r"(n)                   \
               : [s] "r"(sums), [step] "r"(step), [three] "r"(int64_t{R == 3})                                           \
               : "cc", "memory", INGOT_VECTORS)

// The sums of 4 · n keys of R queries, from weights[r · stride] on, over 16 dimensions of values that are `step` bytes
// apart. A table of pointers to them instead costs a sixth of the speed.
template <class S, int R>
inline void mix_lanes(const float* weights, int64_t stride, const std::byte* values, int64_t step, int64_t n,
                      Vec (*sums)[4]) {
  const float *a = weights, *b = weights + stride, *c = weights + 2 * stride, *d = weights + (R - 1) * stride;
  if constexpr (__is_same(S, Stored<DType::kF32>)) {
    if constexpr (R == 4) {
      INGOT_MIX(INGOT_FACTORS4, INGOT_ROWS4, INGOT_OPEN_F32);
    } else {
      INGOT_MIX(INGOT_FACTORS3, INGOT_ROWS3, INGOT_OPEN_F32);
    }
  } else if constexpr (__is_same(S, Stored<DType::kF16>)) {
    if constexpr (R == 4) {
      INGOT_MIX(INGOT_FACTORS4, INGOT_ROWS4, INGOT_OPEN_F16);
    } else {
      INGOT_MIX(INGOT_FACTORS3, INGOT_ROWS3, INGOT_OPEN_F16);
    }
  } else {
    if constexpr (R == 4) {
      INGOT_MIX(INGOT_FACTORS4, INGOT_ROWS4, INGOT_OPEN_BF16);
    } else {
      INGOT_MIX(INGOT_FACTORS3, INGOT_ROWS3, INGOT_OPEN_BF16);
    }
  }
}

#undef INGOT_FMLA4
#undef INGOT_ROWS3
#undef INGOT_ROWS4
#undef INGOT_OPEN_F32
#undef INGOT_OPEN_F16
#undef INGOT_OPEN_BF16
#undef INGOT_ZERO
#undef INGOT_FACTORS3
#undef INGOT_FACTORS4
#undef INGOT_VECTORS
#undef INGOT_SCORE
#undef INGOT_VALUE
#undef INGOT_MIX

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
