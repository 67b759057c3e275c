// The sums of kernels.h for many rows of x: outer products over rows and weights that were transposed once. A lane of a
// sum is a product of its own over every 16th value of K; the lanes meet in the order of the lane tree (cpu/simd.h), so
// that the bits are those of dots(), at 6 loads for 24 multiplications where dots() has 5 for 6. A Neoverse-V1 core
// does 67 GFLOP/s of 83 so; 512 rows by 2048 x 2048 of f32 are at 70 % of two cores' limit, packing counted (dots(): 40
// %).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cpu/isa_source.h"
#include "cpu/simd.h"
#include "matmul/cpu/kernels.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Rows of x and vectors of outputs of a tile: as many sums as leave registers for the operands.
#if defined(__AVX512F__)
constexpr int kOuterRows = 12, kOuterVecs = 2;  // 24 of 32 registers hold sums
#elif defined(__AVX2__)
constexpr int kOuterRows = 6, kOuterVecs = 2;  // 12 of 16
#elif defined(__ARM_NEON)
constexpr int kOuterRows = 6, kOuterVecs = 4;  // 24 of 32
#else
constexpr int kOuterRows = 3, kOuterVecs = 4;  // 12 of 16
#endif
constexpr int kOuterCols = kOuterVecs * kVecLanes;  // outputs of a panel
// The longest piece of K: its rows of x (18 KiB) are in the L1 cache while its panel (48 KiB) passes.
constexpr int64_t kOuterPiece = 768;
// The order in which lanes meet two by two; its own inverse.
constexpr int kLaneOrder[kLanes] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

// Equal pieces of K, of whole groups of lanes.
inline int64_t outer_piece(int64_t k) {
  const int64_t pieces = (k + kOuterPiece - 1) / kOuterPiece;
  return (k + pieces * kLanes - 1) / (pieces * kLanes) * kLanes;
}

inline int64_t whole_lanes(int64_t k) { return (k + kLanes - 1) / kLanes * kLanes; }
int64_t outer_panel(int64_t k) { return whole_lanes(k) * kOuterCols; }
int64_t outer_tile_floats(int64_t k) { return whole_lanes(k) * kOuterRows; }

// Rows of `n` in the order of a tile or panel: of each piece of K its lanes as they are met, of each lane its steps, of
// each step the `width` rows; zeros where there is no value. N of them, at most four.
template <int N>
inline void transpose_some(const float* const* in, int64_t k, int width, float* out) {
  const int64_t length = outer_piece(k);
  for (int64_t piece = 0; piece < k; piece += length) {
    const int64_t end = piece + length < k ? piece + length : k;
    const int64_t steps = (end - piece + kLanes - 1) / kLanes;
    for (int64_t s = 0; s < steps; ++s)
      for (int lane = 0; lane < kLanes; lane += 4) {
        const int64_t from = piece + s * kLanes + lane;
        Vec4 v[4] = {};
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) {
          if (from + 4 <= end) {
            __builtin_memcpy(&v[i], in[i] + from, sizeof(Vec4));
          } else if (from < end) {
            __builtin_memcpy(&v[i], in[i] + from, static_cast<size_t>(end - from) * sizeof(float));
          }
        }
        const Vec4 a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5),
                   b = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
        const Vec4 c = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7),
                   d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
        const Vec4 four[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                              __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
        for (int i = 0; i < 4; ++i) {
          float* to = out + ((piece + kLaneOrder[lane + i] * steps) + s) * width;
          __builtin_memcpy(to, &four[i], N * sizeof(float));
        }
      }
  }
}

inline void transpose_four(const float* const* in, int64_t n, int64_t k, int width, float* out) {
  if (n >= 4) return transpose_some<4>(in, k, width, out);
  if (n == 3) return transpose_some<3>(in, k, width, out);
  if (n == 2) return transpose_some<2>(in, k, width, out);
  transpose_some<1>(in, k, width, out);
}

void pack_outer(const float* const* w, int64_t first, int64_t n, int64_t k, float* panels) {
  transpose_four(w, n, k, kOuterCols, panels + first / kOuterCols * outer_panel(k) + first % kOuterCols);
}

void pack_outer_x(const float* const* x, int64_t n, int64_t k, float* tile) {
  for (int64_t i = 0; i < n; i += 4) transpose_four(x + i, n - i, k, kOuterRows, tile + i);
}

using OuterSums = Vec[kOuterRows][kOuterVecs];

#if defined(__ARM_NEON)
template <int R>
inline void outer_row(OuterSums& sums, const float32x4_t (&b)[kOuterVecs], float32x4_t x) {
#pragma GCC unroll 4
  for (int v = 0; v < kOuterVecs; ++v) sums[R][v] = (Vec)vfmaq_laneq_f32((float32x4_t)sums[R][v], b[v], x, R % 4);
}
#endif

// All steps of one lane.
inline void outer_lane(const float* x, const float* w, int64_t steps, OuterSums& sums) {
  for (int64_t s = 0; s < steps; ++s, w += kOuterCols, x += kOuterRows) {
#if defined(__ARM_NEON)
    float32x4_t b[kOuterVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kOuterVecs; ++v) b[v] = vld1q_f32(w + v * kVecLanes);
    const float32x4_t low = vld1q_f32(x), high = vcombine_f32(vld1_f32(x + 4), vdup_n_f32(0));
    outer_row<0>(sums, b, low);
    outer_row<1>(sums, b, low);
    outer_row<2>(sums, b, low);
    outer_row<3>(sums, b, low);
    outer_row<4>(sums, b, high);
    outer_row<5>(sums, b, high);
#else
    Vec b[kOuterVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kOuterVecs; ++v) b[v] = load(w + v * kVecLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kOuterRows; ++r) {
      const Vec a = broadcast(x[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kOuterVecs; ++v) sums[r][v] = fma(a, b[v], sums[r][v]);
    }
#endif
  }
}

// A tile of x against one panel.
void outer_tile(const float* x, const float* panel, int64_t k, float* out, int64_t out_stride) {
  OuterSums kept[4];        // sums of lanes that wait for their other half
  OuterSums lanes[kLanes];  // of the pieces before, where K is longer than one
  const int64_t length = outer_piece(k);
  for (int64_t piece = 0; piece < k; piece += length) {
    const int64_t n = k - piece < length ? k - piece : length;
    const int64_t steps = (n + kLanes - 1) / kLanes, full = n % kLanes == 0 ? kLanes : n % kLanes;
    const bool last = piece + length >= k;
    int depth = 0;
    for (int i = 0; i < kLanes; ++i) {
      const int64_t at = piece + i * steps;
      OuterSums sums = {};
      if (piece > 0) __builtin_memcpy(sums, lanes[i], sizeof(sums));
      outer_lane(x + at * kOuterRows, panel + at * kOuterCols, steps - (kLaneOrder[i] >= full), sums);
      if (!last) {
        __builtin_memcpy(lanes[i], sums, sizeof(sums));
        continue;
      }
      if (kLaneOrder[i] >= full) {  // dots() adds 0 · 0 where K ends before the lane
        for (auto& row : sums)
          for (Vec& v : row) v = v + Vec{};
      }
      for (int up = std::countr_zero(static_cast<unsigned>(i + 1)); up > 0; --up) {
        --depth;
#pragma GCC unroll 16
        for (int r = 0; r < kOuterRows; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < kOuterVecs; ++v) sums[r][v] = kept[depth][r][v] + sums[r][v];
      }
      if (i + 1 < kLanes) {
        __builtin_memcpy(kept[depth++], sums, sizeof(sums));
        continue;
      }
#pragma GCC unroll 16
      for (int r = 0; r < kOuterRows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < kOuterVecs; ++v) store(out + r * out_stride + v * kVecLanes, sums[r][v]);
    }
  }
}

// One panel stays in the caches while all of x passes.
void dots_outer(const float* x, int64_t nx, const float* panels, int64_t nw, int64_t k, float* out,
                int64_t out_stride) {
  for (int64_t j = 0; j < nw; j += kOuterCols, panels += outer_panel(k)) {
    const float* tile = x;
    for (int64_t i = 0; i < nx; i += kOuterRows, tile += outer_tile_floats(k)) {
      float* to = out + i * out_stride + j;
      if (i + kOuterRows <= nx) {
        outer_tile(tile, panels, k, to, out_stride);
        continue;
      }
      float all[kOuterRows * kOuterCols];
      outer_tile(tile, panels, k, all, kOuterCols);
      for (int64_t r = 0; r < nx - i; ++r)
        __builtin_memcpy(to + r * out_stride, all + r * kOuterCols, kOuterCols * sizeof(float));
    }
  }
}

constexpr OuterDots kOuterDots = {
    .rows = kOuterRows,
    .cols = kOuterCols,
    .tile = outer_tile_floats,
    .panel = outer_panel,
    .pack_x = pack_outer_x,
    .pack = pack_outer,
    .dots = dots_outer,
};

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
