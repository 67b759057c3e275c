// The sums of kernels.h for many rows of x: outer products over rows and weights that were transposed once. A lane of a
// sum is a product of its own over every 16th value of K; the lanes meet in the order of the lane tree (cpu/simd.h), so
// that the bits are those of dots(), at 14 loads for 24 multiplications on AVX-512 (6 on NEON) where dots() has 10 (5
// for 6). A tile alone reaches 84 % of a Cascade Lake core's multipliers.
#pragma once

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
constexpr int kOuterFloats = kOuterRows * kOuterCols;
// Steps of a tile that stay in the L1 cache: 18 KiB of x on AVX-512.
constexpr int64_t kOuterSteps = 384;
constexpr int kOuterAhead = 16;  // steps
constexpr int kTreeLevels = 4;   // of 16 lanes
// The order in which lanes meet two by two; its own inverse.
constexpr int kLaneOrder[kLanes] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

inline int64_t outer_steps(int64_t k) { return (k + kLanes - 1) / kLanes; }
int64_t outer_panel(int64_t k) { return outer_steps(k) * kLanes * kOuterCols; }
int64_t outer_tile_floats(int64_t k) { return outer_steps(k) * kLanes * kOuterRows; }

// 4 x 4 values of each 16 bytes: turned where they are.
#if defined(__AVX512F__)
#define INGOT_LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define INGOT_HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define INGOT_FIRST 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define INGOT_SECOND 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#elif defined(__AVX2__)
#define INGOT_LOW 0, 8, 1, 9, 4, 12, 5, 13
#define INGOT_HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define INGOT_FIRST 0, 1, 8, 9, 4, 5, 12, 13
#define INGOT_SECOND 2, 3, 10, 11, 6, 7, 14, 15
#else
#define INGOT_LOW 0, 4, 1, 5
#define INGOT_HIGH 2, 6, 3, 7
#define INGOT_FIRST 0, 1, 4, 5
#define INGOT_SECOND 2, 3, 6, 7
#endif
inline void turn(Vec (&v)[4]) {
  const Vec a = __builtin_shufflevector(v[0], v[1], INGOT_LOW), b = __builtin_shufflevector(v[2], v[3], INGOT_LOW);
  const Vec c = __builtin_shufflevector(v[0], v[1], INGOT_HIGH), d = __builtin_shufflevector(v[2], v[3], INGOT_HIGH);
  v[0] = __builtin_shufflevector(a, b, INGOT_FIRST), v[1] = __builtin_shufflevector(a, b, INGOT_SECOND);
  v[2] = __builtin_shufflevector(c, d, INGOT_FIRST), v[3] = __builtin_shufflevector(c, d, INGOT_SECOND);
}
#undef INGOT_LOW
#undef INGOT_HIGH
#undef INGOT_FIRST
#undef INGOT_SECOND

inline Vec4 load4(const float* p) {
  Vec4 v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

// Four values of each of kVecLanes rows, row r + 4 of each being behind row r; the last of N stands for later ones.
template <int N>
inline void load_rows(const float* const* in, int first, int64_t at, Vec (&v)[4]) {
  const auto row = [&](int r) { return load4(in[r < N ? r : N - 1] + at); };
#pragma GCC unroll 4
  for (int i = first; i < first + 4; ++i) {
#if defined(__AVX512F__)
    const auto a = __builtin_shufflevector(row(i), row(i + 4), 0, 1, 2, 3, 4, 5, 6, 7);
    const auto b = __builtin_shufflevector(row(i + 8), row(i + 12), 0, 1, 2, 3, 4, 5, 6, 7);
    v[i - first] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
    v[i - first] = __builtin_shufflevector(row(i), row(i + 4), 0, 1, 2, 3, 4, 5, 6, 7);
#else
    v[i - first] = row(i);
#endif
  }
}

// One step of 16 lanes of N rows, which lies at in[row] + from: the values of lane l go to out + place(l) * lane. All
// rows at once, so that a line of the output is whole when it is left.
template <int N>
inline void pack_step(const float* const* in, int64_t from, int64_t lane, float* out) {
#pragma GCC unroll 4
  for (int l = 0; l < kLanes; l += 4) {
#pragma GCC unroll 4
    for (int r = 0; r < N; r += kVecLanes) {
      Vec v[4];
      load_rows<N>(in, r, from + l, v);
      turn(v);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        float* to = out + kLaneOrder[l + i] * lane + r;
        if (r + kVecLanes <= N) {
          store(to, v[i]);
        } else {
          __builtin_memcpy(to, &v[i], static_cast<size_t>(N % kVecLanes) * sizeof(float));
        }
      }
    }
  }
}

// N rows in the order of a tile or panel of `width`: of each lane, in the order in which they are met, its steps, of
// each step the rows; zeros behind the end of K.
template <int N>
inline void pack_lanes(const float* const* in, int64_t k, int width, float* out) {
  const int64_t steps = outer_steps(k), lane = steps * width;
  int64_t s = 0;
  for (; (s + 1) * kLanes <= k; ++s) pack_step<N>(in, s * kLanes, lane, out + s * width);
  if (s == steps) return;
  float ends[N][kLanes] = {};
  const float* rows[N];
  for (int r = 0; r < N; ++r) {
    __builtin_memcpy(ends[r], in[r] + s * kLanes, static_cast<size_t>(k - s * kLanes) * sizeof(float));
    rows[r] = ends[r];
  }
  pack_step<N>(rows, 0, lane, out + s * width);
}

// The last of n rows stands for those that are missing: their sums are dropped.
template <int N>
inline void pack_rows(const float* const* in, int64_t n, int64_t k, int width, float* out) {
  const float* rows[N];
  for (int64_t r = 0; r < N; ++r) rows[r] = in[r < n ? r : n - 1];
  pack_lanes<N>(rows, k, width, out);
}

void pack_outer(const float* const* w, int64_t first, int64_t n, int64_t k, float* panels) {
  float* panel = panels + first / kOuterCols * outer_panel(k);
  pack_rows<kOuterGroup>(w, n, k, kOuterCols, panel + first % kOuterCols);
}

void pack_outer_x(const float* const* x, int64_t n, int64_t k, float* tile) {
  pack_rows<kOuterRows>(x, n, k, kOuterRows, tile);
}

using OuterSums = Vec[kOuterRows][kOuterVecs];

#define INGOT_EACH_SUM                                          \
  _Pragma("GCC unroll 16") for (int r = 0; r < kOuterRows; ++r) \
      _Pragma("GCC unroll 4") for (int v = 0; v < kOuterVecs; ++v)

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
    // Panels come from the L2 cache: 84 % of a Cascade Lake core's multipliers with this, 77 without, at 1024 columns.
#pragma GCC unroll 4
    for (int v = 0; v < kOuterCols; v += 16) __builtin_prefetch(w + kOuterAhead * kOuterCols + v);
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

// Lanes that a tile of x passes panel after panel: its part of them is in the L1 cache meanwhile.
inline int outer_lanes(int64_t k) {
  int lanes = kLanes;
  while (lanes > 1 && lanes * outer_steps(k) > kOuterSteps) lanes /= 2;
  return lanes;
}

int64_t outer_room(int64_t nx, int64_t nw) {
  return (nx + kOuterRows - 1) / kOuterRows * ((nw + kOuterCols - 1) / kOuterCols) * kTreeLevels * kOuterFloats;
}

// Lanes [first, first + n) of a tile of x against one panel, in the order in which they are met. `kept` are the sums of
// the tree's levels that wait for their other half; the last lane's are whole and go to `out`. Sums are copied vector
// by vector: g++ 12 makes `rep movs` of whole arrays on x86-64, twice for each lane.
void outer_tile(const float* x, const float* panel, int64_t k, int first, int n, float* kept, float* out,
                int64_t out_stride) {
  const int64_t steps = outer_steps(k), full = k % kLanes == 0 ? kLanes : k % kLanes;
  for (int i = first; i < first + n; ++i) {
    const bool short_lane = kLaneOrder[i] >= full;
    OuterSums sums;
    INGOT_EACH_SUM sums[r][v] = Vec{};
    outer_lane(x + i * steps * kOuterRows, panel + i * steps * kOuterCols, steps - short_lane, sums);
    if (short_lane) INGOT_EACH_SUM sums[r][v] = sums[r][v] + Vec{};  // dots() adds 0 · 0 where K ends before the lane
    float* level = kept;
    for (int of = i; of % 2 == 1; of /= 2, level += kOuterFloats)
      INGOT_EACH_SUM sums[r][v] = load(level + r * kOuterCols + v * kVecLanes) + sums[r][v];
    const bool last = i + 1 == kLanes;
    float* to = last ? out : level;
    const int64_t stride = last ? out_stride : kOuterCols;
    INGOT_EACH_SUM store(to + r * stride + v * kVecLanes, sums[r][v]);
  }
}

// Some lanes of a tile pass all panels; then those of the next tile.
void dots_outer(const float* x, int64_t nx, const float* panels, int64_t nw, int64_t k, float* out, int64_t out_stride,
                float* room) {
  const int lanes = outer_lanes(k);
  for (int lane = 0; lane < kLanes; lane += lanes) {
    const float* tile = x;
    float* kept = room;
    for (int64_t i = 0; i < nx; i += kOuterRows, tile += outer_tile_floats(k)) {
      const float* panel = panels;
      for (int64_t j = 0; j < nw; j += kOuterCols, panel += outer_panel(k), kept += kTreeLevels * kOuterFloats) {
        float* to = out + i * out_stride + j;
        if (i + kOuterRows <= nx || lane + lanes < kLanes) {
          outer_tile(tile, panel, k, lane, lanes, kept, to, out_stride);
          continue;
        }
        float all[kOuterFloats];
        outer_tile(tile, panel, k, lane, lanes, kept, all, kOuterCols);
        for (int64_t r = 0; r < nx - i; ++r)
          __builtin_memcpy(to + r * out_stride, all + r * kOuterCols, kOuterCols * sizeof(float));
      }
    }
  }
}

#undef INGOT_EACH_SUM

constexpr OuterDots kOuterDots = {
    .rows = kOuterRows,
    .cols = kOuterCols,
    .tile = outer_tile_floats,
    .panel = outer_panel,
    .pack_x = pack_outer_x,
    .pack = pack_outer,
    .room = outer_room,
    .dots = dots_outer,
};

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
