// bfmmla: panels of bf16 by rows of bf16, at every row count, with scales beside the data where there are some.
//
// It multiplies two rows of weights by two rows of x, 4 values of K at a time, into 2 × 2 sums. Rows of x come in pairs
// (PanelKernels::bf16_pairs). Every output is one chain over K in order, or one for the columns of each scale.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/all_vectors.h"
#include "matmul/cpu/arm/panel_i8mm_x.h"
#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Each rounded to the nearest bf16, ties to even; NaN stays NaN. Zeros up to a multiple of 4.
void to_bf16(const float* x, int64_t n, uint16_t* out) {
  const auto put = [&](float32x4_t v) {
    vst1_u16(out, vreinterpret_u16_bf16(vcvt_bf16_f32(v)));
    out += 8;
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) put(vld1q_f32(x + i));
  if (i == n) return;
  float last[4] = {};
  for (int64_t j = i; j < n; ++j) last[j - i] = x[j];
  put(vld1q_f32(last));
}

// Many rows read a panel a piece of K at a time: 32 KB of it stay in the L1 cache while they pass. Where piece
// [k, end) ends.
inline int64_t float_piece_end(int64_t k, int64_t cols, int64_t rows) {
  constexpr int64_t kPiece = 1024;
  return rows > kXRows && cols - k > kPiece ? k + kPiece : cols;
}

// Four sums of the columns from k on, times their scales, added to those before them; as they are without scales.
inline float32x4_t scaled(float32x4_t sum, const float* scale, int64_t k, const float* before) {
  if (scale == nullptr) return sum;
  return vfmaq_f32(k == 0 ? vdupq_n_f32(0) : vld1q_f32(before), sum, vld1q_f32(scale));
}

// One row, a pair with itself, and all 16 outputs of a panel: one pass through its memory, and 8 sums in flight.
// Columns [first, end), with one scale for each output if any.
inline void bfmmla_solo(const uint8_t* panel, int64_t first, int64_t end, const uint16_t* x, const float* scale,
                        float* out) {
  float32x4_t acc[8];
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) acc[j] = vdupq_n_f32(0);
  for (int64_t k = first; k < end; k += 4) {
    const uint8_t* p = panel + 32 * k;
    // One row is limited by memory: the L3 cache in time.
    __builtin_prefetch(p + (16 << 10), 0, 1);
    __builtin_prefetch(p + (16 << 10) + 64, 0, 1);
    const bfloat16x8_t a = vreinterpretq_bf16_u16(vld1q_u16(x + 2 * k));
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) acc[j] = vbfmmlaq_f32(acc[j], vreinterpretq_bf16_u8(vld1q_u8(p + 16 * j)), a);
  }
  for (int j = 0; j < 8; j += 2) {
    const float* by = scale == nullptr ? nullptr : scale + 2 * j;
    vst1q_f32(out + 2 * j, scaled(vuzp1q_f32(acc[j], acc[j + 1]), by, first, out + 2 * j));
  }
}

// I pairs of rows by one panel: assembly for the same reason as that of panel_fmlal.h. From the L1 cache three
// pairs reach 308 GFLOP/s of the 330 of products alone; with pairs made here of rows by themselves, six
// instructions for 48 products, 220.
//
//   v8 … v31  2 × 2 sums, eight of each pair      v0 … v2  4 values of each pair      v4 … v7  two pairs of outputs,
//   twice
#define INGOT_BFMMLA_PAIRS_1(A, B, C, W) "bfmmla v" #A ".4s, v" #W ".8h, v0.8h\n\t"
#define INGOT_BFMMLA_PAIRS_2(A, B, C, W) INGOT_BFMMLA_PAIRS_1(A, B, C, W) "bfmmla v" #B ".4s, v" #W ".8h, v1.8h\n\t"
#define INGOT_BFMMLA_PAIRS_3(A, B, C, W) INGOT_BFMMLA_PAIRS_2(A, B, C, W) "bfmmla v" #C ".4s, v" #W ".8h, v2.8h\n\t"
#define INGOT_LOAD_X_1 "ldr q0, [%[x0], %[k]]\n\t"
#define INGOT_LOAD_X_2 INGOT_LOAD_X_1 "ldr q1, [%[x1], %[k]]\n\t"
#define INGOT_LOAD_X_3 INGOT_LOAD_X_2 "ldr q2, [%[x2], %[k]]\n\t"
// OP: ldp or stp, of the sums of each pair.
#define INGOT_MOVE_SUMS(OP, A, B, C, D, E, F, G, H, AT)                                                         \
  OP " q" #A ", q" #B ", [%[sums], #" #AT "]\n\t" OP " q" #C ", q" #D ", [%[sums], #" #AT "+32]\n\t" OP " q" #E \
     ", q" #F ", [%[sums], #" #AT "+64]\n\t" OP " q" #G ", q" #H ", [%[sums], #" #AT "+96]\n\t"
#define INGOT_MOVE_SUMS_1(OP) INGOT_MOVE_SUMS(OP, 8, 9, 10, 11, 12, 13, 14, 15, 0)
#define INGOT_MOVE_SUMS_2(OP) INGOT_MOVE_SUMS_1(OP) INGOT_MOVE_SUMS(OP, 16, 17, 18, 19, 20, 21, 22, 23, 128)
#define INGOT_MOVE_SUMS_3(OP) INGOT_MOVE_SUMS_2(OP) INGOT_MOVE_SUMS(OP, 24, 25, 26, 27, 28, 29, 30, 31, 256)
// Two pairs of outputs in registers V and W, and their sums A … C and D … F.
#define INGOT_FOUR_OUTPUTS(I, AT, V, W, A, B, C, D, E, F) \
  "ldp q" #V ", q" #W ", [%[w], #" #AT "]\n\t" INGOT_BFMMLA_PAIRS_##I(A, B, C, V) INGOT_BFMMLA_PAIRS_##I(D, E, F, W)
#define INGOT_TILE(I)                                                                                                  \
  INGOT_MOVE_SUMS_##I("ldp") ".p2align 5\n\t1:\n\t" INGOT_LOAD_X_##I "add %[k], %[k], #16\n\t" INGOT_FOUR_OUTPUTS(     \
      I, 0, 6, 7, 8, 16, 24, 9, 17, 25) "prfm pldl3keep, [%[w], #10240]\n\t" INGOT_FOUR_OUTPUTS(I, 32, 4, 5, 10, 18,   \
                                                                                                26, 11, 19, 27)        \
      INGOT_FOUR_OUTPUTS(I, 64, 6, 7, 12, 20, 28, 13, 21, 29) "prfm pldl3keep, [%[w], #10304]\n\t" INGOT_FOUR_OUTPUTS( \
          I, 96, 4, 5, 14, 22, 30, 15, 23,                                                                             \
          31) "add %[w], %[w], #128\n\tcmp %[k], %[end]\n\tb.ne 1b\n\t" INGOT_MOVE_SUMS_##I("stp")
#define INGOT_BF16_ASM(PAIRS)                                                                                      \
  asm volatile(                                                                                                    \
      INGOT_TILE(PAIRS)                                                                                            \
      : [w] "+r"(w), [k] "+r"(k)                                                                                   \
      : [x0] "r"(x[0]), [x1] "r"(x[I > 1 ? 1 : 0]), [x2] "r"(x[I > 2 ? 2 : 0]), [end] "r"(4 * n), [sums] "r"(sums) \
      : "cc", "memory", INGOT_ALL_VECTORS)

// Adds n values of K, a multiple of 4 above 0, to the sums of I pairs.
template <int I>
inline void bfmmla_tile(const uint8_t* w, int64_t n, const uint16_t* const* x, float32x4_t* sums) {
  int64_t k = 0;
  if constexpr (I == 1) {
    INGOT_BF16_ASM(1);
  } else if constexpr (I == 2) {
    INGOT_BF16_ASM(2);
  } else {
    static_assert(I == 3);
    INGOT_BF16_ASM(3);
  }
}

#undef INGOT_BF16_ASM
#undef INGOT_TILE
#undef INGOT_FOUR_OUTPUTS
#undef INGOT_MOVE_SUMS_3
#undef INGOT_MOVE_SUMS_2
#undef INGOT_MOVE_SUMS_1
#undef INGOT_MOVE_SUMS
#undef INGOT_LOAD_X_3
#undef INGOT_LOAD_X_2
#undef INGOT_LOAD_X_1
#undef INGOT_BFMMLA_PAIRS_3
#undef INGOT_BFMMLA_PAIRS_2
#undef INGOT_BFMMLA_PAIRS_1

// I pairs of rows of x, of the last perhaps only one row, and values [k, end) of K: from zero where k is 0, and where
// they have scales.
template <int I>
void bf16_tile(const uint8_t* panel, int64_t k, int64_t end, const XRow* x, int64_t rows, const float* scale,
               float* out, int64_t stride) {
  float32x4_t sums[I][8];
  const uint16_t* at[I];
  const bool zero = k == 0 || scale != nullptr;
  for (int i = 0; i < I; ++i) {
    at[i] = x[2 * i].bf16 + 2 * k;
    const float* a = out + 2 * i * stride;
    const float* b = 2 * i + 1 < rows ? a + stride : a;
    for (int j = 0; j < 8; j += 2) {
      const float32x4_t va = zero ? vdupq_n_f32(0) : vld1q_f32(a + 2 * j);
      const float32x4_t vb = zero ? vdupq_n_f32(0) : vld1q_f32(b + 2 * j);
      sums[i][j] = vzip1q_f32(va, vb);
      sums[i][j + 1] = vzip2q_f32(va, vb);
    }
  }
  bfmmla_tile<I>(panel + 32 * k, (end - k + 3) / 4 * 4, at, sums[0]);
  for (int i = 0; i < I; ++i)
    for (int j = 0; j < 8; j += 2) {
      const float* by = scale == nullptr ? nullptr : scale + 2 * j;
      float* to = out + 2 * i * stride + 2 * j;
      vst1q_f32(to, scaled(vuzp1q_f32(sums[i][j], sums[i][j + 1]), by, k, to));
      to += stride;
      if (2 * i + 1 < rows) vst1q_f32(to, scaled(vuzp2q_f32(sums[i][j], sums[i][j + 1]), by, k, to));
    }
}

void run_bf16_i8mm(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  const bool scales = w.scale_cols > 0;
  for (int64_t i = 0; i < span.n; ++i, out += kPanelRows) {
    const auto* panel = reinterpret_cast<const uint8_t*>(w.panel(span.first + i));
    for (int64_t k = 0, end = 0; k < w.cols; k = end) {
      end = scales ? end_of_scale(w, k) : float_piece_end(k, w.cols, rows);
      const float* scale = scales ? scales_of(w, panel, k) : nullptr;
      if (rows == 1) bfmmla_solo(panel, k, end, x->bf16, scale, out);
      for (int64_t r = 0; rows > 1 && r < rows; r += kXRows) {
        const int64_t n = rows_of_tile(rows - r);
        float* to = out + r * stride;
        if (n > 4) {
          bf16_tile<3>(panel, k, end, x + r, n, scale, to, stride);
        } else if (n > 2) {
          bf16_tile<2>(panel, k, end, x + r, n, scale, to, stride);
        } else {
          bf16_tile<1>(panel, k, end, x + r, n, scale, to, stride);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
