// gptq_tiles.h for the instruction set that the including source is compiled for: nothing here has a name beyond it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/gptq_tiles.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace ingot {
namespace {

// Floats and Doubles are a register of them; the sums of a tile leave registers for what is multiplied.
#if defined(__AVX512F__)
using Floats = __m512;
using Doubles = __m512d;
constexpr int64_t kPanel = 16, kGramHeight = 8, kGramVecs = 3;
constexpr int64_t kFactorHeight = 8, kFactorVecs = 2;
constexpr int64_t kSpreadColumns = 24;  // registers of sums of a tile of spread()
inline Floats multiply_add(Floats a, float b, Floats c) { return _mm512_fmadd_ps(a, _mm512_set1_ps(b), c); }
inline Doubles multiply_subtract(Doubles a, double b, Doubles c) { return _mm512_fnmadd_pd(a, _mm512_set1_pd(b), c); }
#elif defined(__AVX2__)
using Floats = __m256;
using Doubles = __m256d;
constexpr int64_t kPanel = 16, kGramHeight = 4, kGramVecs = 2;
constexpr int64_t kFactorHeight = 4, kFactorVecs = 2;
constexpr int64_t kSpreadColumns = 12;
inline Floats multiply_add(Floats a, float b, Floats c) { return _mm256_fmadd_ps(a, _mm256_set1_ps(b), c); }
inline Doubles multiply_subtract(Doubles a, double b, Doubles c) { return _mm256_fnmadd_pd(a, _mm256_set1_pd(b), c); }
#elif defined(__ARM_NEON)
using Floats = float32x4_t;
using Doubles = float64x2_t;
constexpr int64_t kPanel = 4, kGramHeight = 8, kGramVecs = 3;
constexpr int64_t kFactorHeight = 4, kFactorVecs = 4;
constexpr int64_t kSpreadColumns = 24;
inline Floats multiply_add(Floats a, float b, Floats c) { return vfmaq_n_f32(c, a, b); }
inline Doubles multiply_subtract(Doubles a, double b, Doubles c) { return vfmsq_n_f64(c, a, b); }
#else
typedef float Floats __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(16)));
constexpr int64_t kPanel = 16, kGramHeight = 4, kGramVecs = 4;
constexpr int64_t kFactorHeight = 4, kFactorVecs = 4;
constexpr int64_t kSpreadColumns = 12;
inline Floats multiply_add(Floats a, float b, Floats c) { return a * b + c; }
inline Doubles multiply_subtract(Doubles a, double b, Doubles c) { return c - a * b; }
#endif

template <class V, class T>
inline V load(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
template <class V, class T>
inline void store(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

constexpr int64_t kFloats = sizeof(Floats) / sizeof(float), kDoubles = sizeof(Doubles) / sizeof(double);
constexpr int64_t kGramWidth = kGramVecs * kFloats, kFactorWidth = kFactorVecs * kDoubles;
static_assert(kGramSide % kGramHeight == 0 && kGramSide % kGramWidth == 0 && kGramSide % kPanel == 0);
static_assert(kGramHeight * kGramWidth <= kMostGramTile && kFactorSide % kFactorHeight == 0 &&
              kFactorSide % kFactorWidth == 0);

#if defined(__ARM_NEON)
// Eight columns of `a` are two panels, and a register of each multiplies by its lanes.
void gram_tile(const float* a, const float* b, int64_t rows, int64_t step, float* out) {
  float32x4_t sum[kGramHeight][3] = {};
  const float *a1 = a + step, *b1 = b + step, *b2 = b + 2 * step;
  for (int64_t t = 0; t < rows; ++t, a += 4, a1 += 4, b += 4, b1 += 4, b2 += 4) {
    const float32x4_t x0 = vld1q_f32(a), x1 = vld1q_f32(a1);
    const float32x4_t y[3] = {vld1q_f32(b), vld1q_f32(b1), vld1q_f32(b2)};
    for (int j = 0; j < 3; ++j) {
      sum[0][j] = vfmaq_laneq_f32(sum[0][j], y[j], x0, 0);
      sum[1][j] = vfmaq_laneq_f32(sum[1][j], y[j], x0, 1);
      sum[2][j] = vfmaq_laneq_f32(sum[2][j], y[j], x0, 2);
      sum[3][j] = vfmaq_laneq_f32(sum[3][j], y[j], x0, 3);
      sum[4][j] = vfmaq_laneq_f32(sum[4][j], y[j], x1, 0);
      sum[5][j] = vfmaq_laneq_f32(sum[5][j], y[j], x1, 1);
      sum[6][j] = vfmaq_laneq_f32(sum[6][j], y[j], x1, 2);
      sum[7][j] = vfmaq_laneq_f32(sum[7][j], y[j], x1, 3);
    }
  }
#pragma GCC unroll 24
  for (int64_t i = 0; i < kGramHeight; ++i)
    for (int64_t j = 0; j < 3; ++j) vst1q_f32(out + i * kGramWidth + 4 * j, sum[i][j]);
}
#else
// The columns of `a` lie within one panel.
void gram_tile(const float* a, const float* b, int64_t rows, int64_t step, float* out) {
  static_assert(kPanel % kGramHeight == 0);
  Floats sum[kGramHeight][kGramVecs] = {};
  for (int64_t t = 0; t < rows; ++t, a += kPanel, b += kPanel) {
    Floats y[kGramVecs];
#pragma GCC unroll 24
    for (int64_t j = 0; j < kGramVecs; ++j) y[j] = load<Floats>(b + j * kFloats / kPanel * step + j * kFloats % kPanel);
#pragma GCC unroll 24
    for (int64_t i = 0; i < kGramHeight; ++i)
#pragma GCC unroll 24
      for (int64_t j = 0; j < kGramVecs; ++j) sum[i][j] = multiply_add(y[j], a[i], sum[i][j]);
  }
#pragma GCC unroll 24
  for (int64_t i = 0; i < kGramHeight; ++i)
#pragma GCC unroll 24
    for (int64_t j = 0; j < kGramVecs; ++j) store(out + i * kGramWidth + j * kFloats, sum[i][j]);
}
#endif

void subtract_tile(double* to, const double* left, const double* right, int64_t stride, int64_t depth) {
  Doubles sum[kFactorHeight][kFactorVecs];
#pragma GCC unroll 24
  for (int64_t r = 0; r < kFactorHeight; ++r)
#pragma GCC unroll 24
    for (int64_t c = 0; c < kFactorVecs; ++c) sum[r][c] = load<Doubles>(to + r * stride + c * kDoubles);
  for (int64_t p = 0; p < depth; ++p, right += stride) {
    Doubles column[kFactorVecs];
#pragma GCC unroll 24
    for (int64_t c = 0; c < kFactorVecs; ++c) column[c] = load<Doubles>(right + c * kDoubles);
#pragma GCC unroll 24
    for (int64_t r = 0; r < kFactorHeight; ++r)
#pragma GCC unroll 24
      for (int64_t c = 0; c < kFactorVecs; ++c)
        sum[r][c] = multiply_subtract(column[c], left[r * stride + p], sum[r][c]);
  }
#pragma GCC unroll 24
  for (int64_t r = 0; r < kFactorHeight; ++r)
#pragma GCC unroll 24
    for (int64_t c = 0; c < kFactorVecs; ++c) store(to + r * stride + c * kDoubles, sum[r][c]);
}

template <int64_t kRows, int64_t kTile>
void spread_tile(const float* factors, int64_t stride, const float* error, int64_t count, float* wanted) {
  constexpr int64_t kVecs = kRows / kFloats;
  Floats sum[kTile][kVecs];
#pragma GCC unroll 24
  for (int64_t c = 0; c < kTile; ++c)
#pragma GCC unroll 24
    for (int64_t v = 0; v < kVecs; ++v) sum[c][v] = load<Floats>(wanted + c * kRows + v * kFloats);
  for (int64_t i = 0; i < count; ++i, factors += stride, error += kRows) {
    Floats e[kVecs];
#pragma GCC unroll 24
    for (int64_t v = 0; v < kVecs; ++v) e[v] = load<Floats>(error + v * kFloats);
#pragma GCC unroll 24
    for (int64_t c = 0; c < kTile; ++c)
#pragma GCC unroll 24
      for (int64_t v = 0; v < kVecs; ++v) sum[c][v] = multiply_add(e[v], factors[c], sum[c][v]);
  }
#pragma GCC unroll 24
  for (int64_t c = 0; c < kTile; ++c)
#pragma GCC unroll 24
    for (int64_t v = 0; v < kVecs; ++v) store(wanted + c * kRows + v * kFloats, sum[c][v]);
}

template <int64_t kRows>
void spread(const float* factors, int64_t stride, const float* error, int64_t count, float* wanted, int64_t columns) {
  constexpr int64_t kTile = kSpreadColumns * kFloats / kRows;
  int64_t k = 0;
  for (; k + kTile <= columns; k += kTile)
    spread_tile<kRows, kTile>(factors + k, stride, error, count, wanted + k * kRows);
  for (; k + 3 <= columns; k += 3) spread_tile<kRows, 3>(factors + k, stride, error, count, wanted + k * kRows);
  for (; k < columns; ++k) spread_tile<kRows, 1>(factors + k, stride, error, count, wanted + k * kRows);
}

// Eight floats at a time on machines whose registers hold sixteen.
#if defined(__AVX512F__)
template <int64_t kTile>
void spread_tile_of_8(const float* factors, int64_t stride, const float* error, int64_t count, float* wanted) {
  __m256 sum[kTile];
#pragma GCC unroll 24
  for (int64_t c = 0; c < kTile; ++c) sum[c] = _mm256_loadu_ps(wanted + c * 8);
  for (int64_t i = 0; i < count; ++i, factors += stride, error += 8) {
    const __m256 e = _mm256_loadu_ps(error);
#pragma GCC unroll 24
    for (int64_t c = 0; c < kTile; ++c) sum[c] = _mm256_fmadd_ps(e, _mm256_set1_ps(factors[c]), sum[c]);
  }
#pragma GCC unroll 24
  for (int64_t c = 0; c < kTile; ++c) _mm256_storeu_ps(wanted + c * 8, sum[c]);
}
void spread_8(const float* factors, int64_t stride, const float* error, int64_t count, float* wanted, int64_t columns) {
  int64_t k = 0;
  for (; k + 24 <= columns; k += 24) spread_tile_of_8<24>(factors + k, stride, error, count, wanted + k * 8);
  for (; k + 3 <= columns; k += 3) spread_tile_of_8<3>(factors + k, stride, error, count, wanted + k * 8);
  for (; k < columns; ++k) spread_tile_of_8<1>(factors + k, stride, error, count, wanted + k * 8);
}
#else
constexpr GptqTiles::Spread* spread_8 = spread<8>;
#endif

constexpr GptqTiles make_gptq_tiles(const char* name) {
  return {.name = name,
          .panel = kPanel,
          .gram_height = kGramHeight,
          .gram_width = kGramWidth,
          .gram = gram_tile,
          .factor_height = kFactorHeight,
          .factor_width = kFactorWidth,
          .subtract = subtract_tile,
          .spread_16 = spread<16>,
          .spread_8 = spread_8};
}

}  // namespace
}  // namespace ingot
