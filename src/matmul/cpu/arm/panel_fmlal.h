// fmlal: panels of f16 by rows of f16, at every row count.
//
// A product of two f16 is exact in float32, and fmlal adds it with one rounding: every output is one chain of fused
// multiply-adds over K in order, whichever function computes it. With x by lane, 16 outputs and one k are four
// instructions and no broadcast.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/all_vectors.h"
#include "matmul/cpu/arm/panel_bfmmla.h"
#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

constexpr int64_t kF16Lanes = 8;  // values of x in a register

// x · 2^s as f16, s such that the largest finite |x| comes into [2^14, 2^15): none overflows, and what falls among the
// subnormals of f16 is less than 2^-28 of the largest. NaN and infinity stay what they are. Gives 2^-s.
float to_f16(const float* x, int64_t n, uint16_t* out) {
  const auto magnitudes = [](float32x4_t v) {  // 0 where not finite
    const uint32x4_t bits = vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0x7fffffffu));
    return vandq_u32(bits, vcltq_u32(bits, vdupq_n_u32(0x7f800000u)));
  };
  uint32x4_t most = vdupq_n_u32(0);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) most = vmaxq_u32(most, magnitudes(vld1q_f32(x + i)));
  for (; i < n; ++i) most = vmaxq_u32(most, magnitudes(vdupq_n_f32(x[i])));
  // At most 126, so that both powers are normal; the least float32, 2^-149, is no less than the least f16 then.
  const uint32_t wanted = 141 - (vmaxvq_u32(most) >> 23) + 127, power = wanted < 253 ? wanted : 253;
  const float up = __builtin_bit_cast(float, power << 23);
  const auto rounded = [&](float32x4_t v) { return vreinterpret_u16_f16(vcvt_f16_f32(vmulq_n_f32(v, up))); };
  for (i = 0; i + 4 <= n; i += 4) vst1_u16(out + i, rounded(vld1q_f32(x + i)));
  for (; i < n; ++i) out[i] = vget_lane_u16(rounded(vdupq_n_f32(x[i])), 0);
  return __builtin_bit_cast(float, (254 - power) << 23);
}

// The sums of 16 outputs and one k, whose weights are at w.
inline void add_k(const uint8_t* w, uint16_t x, float32x4_t (&sum)[4]) {
  const float16x8_t low = vreinterpretq_f16_u8(vld1q_u8(w)), high = vreinterpretq_f16_u8(vld1q_u8(w + 16));
  const float16x8_t all_x = vreinterpretq_f16_u16(vdupq_n_u16(x));
  sum[0] = vfmlalq_low_f16(sum[0], low, all_x);
  sum[1] = vfmlalq_high_f16(sum[1], low, all_x);
  sum[2] = vfmlalq_low_f16(sum[2], high, all_x);
  sum[3] = vfmlalq_high_f16(sum[3], high, all_x);
}

// One to six rows of x by one panel, and one or two by two: assembly, because six rows take all 32 registers and g++ 12
// copies sums where it may choose. Six rows reach 81 GFLOP/s from the L1 cache of the 83 of products alone
// (g++: 56), five 82 (68), three 71 (64). One row by two panels reads 35 GB/s from memory, by one, with four sums under
// way, 25; lines that are not prefetched 10 KB ahead make it 29 and 22.
//
//   v8 … v31  sums, four of each row and panel      v0 … v5  8 values of each row      v6, v7  the weights of one k
//   of two panels: v0, v1  rows      v4, v5 and v6, v7  the weights of each
#define INGOT_FMLAL_16_OUTPUTS(A, B, C, D, V, W, X, I)                                              \
  "fmlal v" #A ".4s, v" #V ".4h, v" #X ".h[" #I "]\n\tfmlal2 v" #B ".4s, v" #V ".4h, v" #X ".h[" #I \
  "]\n\t"                                                                                           \
  "fmlal v" #C ".4s, v" #W ".4h, v" #X ".h[" #I "]\n\tfmlal2 v" #D ".4s, v" #W ".4h, v" #X ".h[" #I "]\n\t"
#define INGOT_FMLAL_ROW(A, B, C, D, X, I) INGOT_FMLAL_16_OUTPUTS(A, B, C, D, 6, 7, X, I)
#define INGOT_FMLAL_ROWS_1(I) INGOT_FMLAL_ROW(8, 9, 10, 11, 0, I)
#define INGOT_FMLAL_ROWS_2(I) INGOT_FMLAL_ROWS_1(I) INGOT_FMLAL_ROW(12, 13, 14, 15, 1, I)
#define INGOT_FMLAL_ROWS_3(I) INGOT_FMLAL_ROWS_2(I) INGOT_FMLAL_ROW(16, 17, 18, 19, 2, I)
#define INGOT_FMLAL_ROWS_4(I) INGOT_FMLAL_ROWS_3(I) INGOT_FMLAL_ROW(20, 21, 22, 23, 3, I)
#define INGOT_FMLAL_ROWS_5(I) INGOT_FMLAL_ROWS_4(I) INGOT_FMLAL_ROW(24, 25, 26, 27, 4, I)
#define INGOT_FMLAL_ROWS_6(I) INGOT_FMLAL_ROWS_5(I) INGOT_FMLAL_ROW(28, 29, 30, 31, 5, I)
#define INGOT_FMLAL_BOTH_1(I) \
  INGOT_FMLAL_16_OUTPUTS(8, 9, 10, 11, 4, 5, 0, I) INGOT_FMLAL_16_OUTPUTS(12, 13, 14, 15, 6, 7, 0, I)
#define INGOT_FMLAL_BOTH_2(I) \
  INGOT_FMLAL_BOTH_1(I)       \
  INGOT_FMLAL_16_OUTPUTS(16, 17, 18, 19, 4, 5, 1, I) INGOT_FMLAL_16_OUTPUTS(20, 21, 22, 23, 6, 7, 1, I)
#define INGOT_LOAD_X_1 "ldr q0, [%[x0], %[k]]\n\t"
#define INGOT_LOAD_X_2 INGOT_LOAD_X_1 "ldr q1, [%[x1], %[k]]\n\t"
#define INGOT_LOAD_X_3 INGOT_LOAD_X_2 "ldr q2, [%[x2], %[k]]\n\t"
#define INGOT_LOAD_X_4 INGOT_LOAD_X_3 "ldr q3, [%[x3], %[k]]\n\t"
#define INGOT_LOAD_X_5 INGOT_LOAD_X_4 "ldr q4, [%[x4], %[k]]\n\t"
#define INGOT_LOAD_X_6 INGOT_LOAD_X_5 "ldr q5, [%[x5], %[k]]\n\t"
// OP: ldp or stp, of the sums of each row; of two panels they lie side by side.
#define INGOT_MOVE_SUMS(OP, A, B, C, D) \
  OP " q" #A ", q" #B ", [x9]\n\t" OP " q" #C ", q" #D ", [x9, #32]\n\tadd x9, x9, %[stride]\n\t"
#define INGOT_MOVE_SUMS_1(OP) "mov x9, %[out]\n\t" INGOT_MOVE_SUMS(OP, 8, 9, 10, 11)
#define INGOT_MOVE_SUMS_2(OP) INGOT_MOVE_SUMS_1(OP) INGOT_MOVE_SUMS(OP, 12, 13, 14, 15)
#define INGOT_MOVE_SUMS_3(OP) INGOT_MOVE_SUMS_2(OP) INGOT_MOVE_SUMS(OP, 16, 17, 18, 19)
#define INGOT_MOVE_SUMS_4(OP) INGOT_MOVE_SUMS_3(OP) INGOT_MOVE_SUMS(OP, 20, 21, 22, 23)
#define INGOT_MOVE_SUMS_5(OP) INGOT_MOVE_SUMS_4(OP) INGOT_MOVE_SUMS(OP, 24, 25, 26, 27)
#define INGOT_MOVE_SUMS_6(OP) INGOT_MOVE_SUMS_5(OP) INGOT_MOVE_SUMS(OP, 28, 29, 30, 31)
#define INGOT_MOVE_SUMS_BOTH(OP, A, B, C, D, E, F, G, H)                                                          \
  OP " q" #A ", q" #B ", [x9]\n\t" OP " q" #C ", q" #D ", [x9, #32]\n\t" OP " q" #E ", q" #F ", [x9, #64]\n\t" OP \
     " q" #G ", q" #H ", [x9, #96]\n\tadd x9, x9, %[stride]\n\t"
#define INGOT_MOVE_SUMS_BOTH_1(OP) "mov x9, %[out]\n\t" INGOT_MOVE_SUMS_BOTH(OP, 8, 9, 10, 11, 12, 13, 14, 15)
#define INGOT_MOVE_SUMS_BOTH_2(OP) INGOT_MOVE_SUMS_BOTH_1(OP) INGOT_MOVE_SUMS_BOTH(OP, 16, 17, 18, 19, 20, 21, 22, 23)
// Two k and the line that they are; the 160th from here is asked for.
#define INGOT_STEPS(R, I, J)                                                                          \
  "ldp q6, q7, [%[w], #32*" #I "]\n\t" INGOT_FMLAL_ROWS_##R(I) "prfm pldl3keep, [%[w], #10240+32*" #I \
                                                               "]\n\t"                                \
                                                               "ldp q6, q7, [%[w], #32*" #J           \
                                                               "]\n\t" INGOT_FMLAL_ROWS_##R(J)
#define INGOT_TILE(R) \
  asm volatile(INGOT_MOVE_SUMS_##R("ldp") ".p2align 5\n\t1:\n\t" INGOT_LOAD_X_##R "add %[k], %[k], #16\n\t" INGOT_STEPS(R, 0, 1)  \
               INGOT_STEPS(R, 2, 3) INGOT_STEPS(R, 4, 5) INGOT_STEPS(R, 6, 7) "add %[w], %[w], #256\n\t"               \
               "cmp %[k], %[end]\n\tb.ne 1b\n\t" INGOT_MOVE_SUMS_##R("stp")                                                \
               : [w] "+r"(w), [k] "+r"(k)                                                                              \
               : [x0] "r"(x[0]), [x1] "r"(x[kRows > 1 ? 1 : 0]), [x2] "r"(x[kRows > 2 ? 2 : 0]),                        \
                 [x3] "r"(x[kRows > 3 ? 3 : 0]), [x4] "r"(x[kRows > 4 ? 4 : 0]), [x5] "r"(x[kRows > 5 ? 5 : 0]),         \
                 [end] "r"(2 * n), [out] "r"(out), [stride] "r"(4 * stride)                                             \
               : "x9", "cc", "memory", INGOT_ALL_VECTORS)
#define INGOT_LOAD_BOTH(I) "ldp q4, q5, [%[w], #32*" #I "]\n\tldp q6, q7, [%[v], #32*" #I "]\n\t"
#define INGOT_STEPS_BOTH(R, I, J)                                                                                    \
  INGOT_LOAD_BOTH(I)                                                                                                 \
  "prfm pldl3keep, [%[w], #10240+32*" #I "]\n\tprfm pldl3keep, [%[v], #10240+32*" #I "]\n\t" INGOT_FMLAL_BOTH_##R(I) \
      INGOT_LOAD_BOTH(J) INGOT_FMLAL_BOTH_##R(J)
#define INGOT_TILE_BOTH(R) \
  asm volatile(INGOT_MOVE_SUMS_BOTH_##R("ldp") ".p2align 5\n\t1:\n\t" INGOT_LOAD_X_##R "add %[k], %[k], #16\n\t"                \
               INGOT_STEPS_BOTH(R, 0, 1) INGOT_STEPS_BOTH(R, 2, 3) INGOT_STEPS_BOTH(R, 4, 5)                           \
               INGOT_STEPS_BOTH(R, 6, 7) "add %[w], %[w], #256\n\tadd %[v], %[v], #256\n\tcmp %[k], %[end]\n\t"         \
               "b.ne 1b\n\t" INGOT_MOVE_SUMS_BOTH_##R("stp")                                                              \
               : [w] "+r"(w), [v] "+r"(v), [k] "+r"(k)                                                                  \
               : [x0] "r"(x[0]), [x1] "r"(x[kRows > 1 ? 1 : 0]), [end] "r"(2 * n), [out] "r"(out),                     \
                 [stride] "r"(4 * stride)                                                                              \
               : "x9", "cc", "memory", INGOT_ALL_VECTORS)

// Adds n values of K, a multiple of 8 above 0, to the sums of these rows in `out`; x: the rows' values.
template <int kRows>
inline void fmlal_tile(const uint8_t* w, int64_t n, const uint16_t* const* x, float* out, int64_t stride) {
  int64_t k = 0;
  if constexpr (kRows == 1) INGOT_TILE(1);
  if constexpr (kRows == 2) INGOT_TILE(2);
  if constexpr (kRows == 3) INGOT_TILE(3);
  if constexpr (kRows == 4) INGOT_TILE(4);
  if constexpr (kRows == 5) INGOT_TILE(5);
  if constexpr (kRows == 6) INGOT_TILE(6);
}

// The same of panels w and v.
template <int kRows>
inline void fmlal_both(const uint8_t* w, const uint8_t* v, int64_t n, const uint16_t* const* x, float* out,
                       int64_t stride) {
  int64_t k = 0;
  if constexpr (kRows == 1) INGOT_TILE_BOTH(1);
  if constexpr (kRows == 2) INGOT_TILE_BOTH(2);
}

#undef INGOT_TILE_BOTH
#undef INGOT_STEPS_BOTH
#undef INGOT_LOAD_BOTH
#undef INGOT_TILE
#undef INGOT_STEPS
#undef INGOT_MOVE_SUMS_BOTH_2
#undef INGOT_MOVE_SUMS_BOTH_1
#undef INGOT_MOVE_SUMS_BOTH
#undef INGOT_MOVE_SUMS_6
#undef INGOT_MOVE_SUMS_5
#undef INGOT_MOVE_SUMS_4
#undef INGOT_MOVE_SUMS_3
#undef INGOT_MOVE_SUMS_2
#undef INGOT_MOVE_SUMS_1
#undef INGOT_MOVE_SUMS
#undef INGOT_LOAD_X_6
#undef INGOT_LOAD_X_5
#undef INGOT_LOAD_X_4
#undef INGOT_LOAD_X_3
#undef INGOT_LOAD_X_2
#undef INGOT_LOAD_X_1
#undef INGOT_FMLAL_BOTH_2
#undef INGOT_FMLAL_BOTH_1
#undef INGOT_FMLAL_ROWS_6
#undef INGOT_FMLAL_ROWS_5
#undef INGOT_FMLAL_ROWS_4
#undef INGOT_FMLAL_ROWS_3
#undef INGOT_FMLAL_ROWS_2
#undef INGOT_FMLAL_ROWS_1
#undef INGOT_FMLAL_ROW
#undef INGOT_FMLAL_16_OUTPUTS

// What is left of K behind the eights, then the scale.
inline void finish_f16(const uint8_t* panel, int64_t k, int64_t end, const XRow* x, int rows, float* out,
                       int64_t stride) {
  for (int r = 0; r < rows; ++r) {
    float* to = out + r * stride;
    float32x4_t sum[4];
    for (int j = 0; j < 4; ++j) sum[j] = vld1q_f32(to + 4 * j);
    for (int64_t i = k; i < end; ++i) add_k(panel + 32 * i, x[r].f16[i], sum);
    for (int j = 0; j < 4; ++j) vst1q_f32(to + 4 * j, vmulq_n_f32(sum[j], x[r].f16_scale));
  }
}

// kRows rows of x by one panel, values [k, end) of K: from zero where k is 0, scaled where `end` is the last.
template <int kRows>
void f16_tile(const uint8_t* panel, int64_t k, int64_t end, bool last, const XRow* x, float* out, int64_t stride) {
  const uint16_t* at[kRows];
  for (int r = 0; r < kRows; ++r) {
    at[r] = x[r].f16 + k;
    for (int j = 0; k == 0 && j < kPanelRows; j += 4) vst1q_f32(out + r * stride + j, vdupq_n_f32(0));
  }
  const int64_t whole = (end - k) / kF16Lanes * kF16Lanes;
  if (whole > 0) fmlal_tile<kRows>(panel + 32 * k, whole, at, out, stride);
  if (!last) return;
  finish_f16(panel, k + whole, end, x, kRows, out, stride);
}

// One or two rows by two panels `gap` bytes apart.
template <int kRows>
void f16_both(const uint8_t* panel, int64_t gap, int64_t cols, const XRow* x, float* out, int64_t stride) {
  const uint16_t* at[kRows];
  for (int r = 0; r < kRows; ++r) {
    at[r] = x[r].f16;
    for (int j = 0; j < 2 * kPanelRows; j += 4) vst1q_f32(out + r * stride + j, vdupq_n_f32(0));
  }
  const int64_t whole = cols / kF16Lanes * kF16Lanes;
  if (whole > 0) fmlal_both<kRows>(panel, panel + gap, whole, at, out, stride);
  for (int p = 0; p < 2; ++p) finish_f16(panel + p * gap, whole, cols, x, kRows, out + p * kPanelRows, stride);
}

void run_f16_fmlal(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  constexpr decltype(&f16_tile<1>) kTiles[] = {f16_tile<1>, f16_tile<2>, f16_tile<3>,
                                               f16_tile<4>, f16_tile<5>, f16_tile<6>};
  const PackedWeight& w = *span.weight;
  const auto panel_at = [&](int64_t i) { return reinterpret_cast<const uint8_t*>(w.panel(span.first + i)); };
  int64_t i = 0;
  for (; rows <= 2 && i + 2 <= span.n; i += 2, out += 2 * kPanelRows)
    (rows == 1 ? f16_both<1> : f16_both<2>)(panel_at(i), w.panel_bytes, w.cols, x, out, stride);
  for (; i < span.n; ++i, out += kPanelRows) {
    const uint8_t* panel = panel_at(i);
    for (int64_t k = 0, end = 0; k < w.cols; k = end) {
      end = float_piece_end(k, w.cols, rows);
      // Tiles of six rows and towards the end of fewer, but not of one or two where there are more.
      for (int64_t r = 0, n = 0; r < rows; r += n) {
        const int64_t left = rows - r, tiles = (left + 5) / 6;
        n = (left + tiles - 1) / tiles;
        kTiles[n - 1](panel, k, end, end == w.cols, x + r, out + r * stride, stride);
      }
    }
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
