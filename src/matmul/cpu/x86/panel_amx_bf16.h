// Weights of bf16 on AMX, at all row counts.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_sources.h"
#include "matmul/cpu/x86/panel_amx_config.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Each rounded to the nearest bf16, ties to even; NaN stays NaN. Zeros up to a multiple of 4.
void to_bf16(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    out[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 64 : rounded);
  }
  for (int64_t i = n; i % 4 != 0; ++i) out[i] = 0;
}

// Asks for the lines of a tile of weights 2 KB ahead of `at`; past the panel's end of the one behind `skipped` others.
// Few rows wait for the memory: 8B on 16 cores decodes 9.0 tok/s with this and 8.3 without.
inline void ask_for_tile(const uint8_t* panel, int64_t at, int64_t panel_bytes, int64_t skipped) {
  const int64_t ahead = at + 2048;
  const uint8_t* from = panel + ahead + (ahead < panel_bytes ? 0 : skipped * panel_bytes);
#pragma GCC unroll 16
  for (int line = 0; line < 16; ++line) _mm_prefetch(from + 64 * line, _MM_HINT_T0);
}

// Sums of `rows` rows of x and a panel, of the columns from `first` on that share a scale.
inline void add_scaled(const PackedWeight& w, const uint8_t* panel, int64_t first, const float* sums, int64_t rows,
                       float* out, int64_t stride) {
  for (int at = 0; at < kPanelRows; at += kVecRows) {
    const Floats scale = load_floats(scales_of(w, panel, first) + at);
    for (int64_t r = 0; r < rows; ++r) {
      float* to = out + r * stride + at;
      const Floats before = first == 0 ? zero_floats() : load_floats(to);
      store_floats(to, multiply_add(load_floats(sums + r * kPanelRows + at), scale, before));
    }
  }
}

// bf16: two groups of up to 16 rows (`rows`, where it is one group) against two panels, columns [first, end) with one
// scale; K in order, 32 values at a time, the sums stay in tiles.
// The value of a sum does not depend on how many rows or panels are computed beside it.
template <int A, int B>
inline void bf16_tiles(const PackedWeight& w, const uint8_t* const* panels, int64_t first, int64_t end,
                       const uint16_t* const* x, int64_t x_stride, int64_t rows, float* const* out, int64_t stride) {
  const auto x_bytes = static_cast<size_t>(2 * x_stride), out_bytes = static_cast<size_t>(4 * stride);
  _tile_zero(0);
  if constexpr (B > 1) _tile_zero(1);
  if constexpr (A > 1) _tile_zero(2);
  if constexpr (A > 1 && B > 1) _tile_zero(3);
  for (int64_t k = first; k < end; k += 32) {
    if constexpr (A == 1) {
      for (int b = 0; b < B; ++b) ask_for_tile(panels[b], 32 * k, w.panel_bytes, B - 1);
    }
    _tile_loadd(4, x[0] + k, x_bytes);
    _tile_loadd(6, panels[0] + 32 * k, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (B > 1) {
      _tile_loadd(7, panels[1] + 32 * k, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (A > 1) {
      _tile_loadd(5, x[1] + k, x_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (A > 1 && B > 1) _tile_dpbf16ps(3, 5, 7);
  }
  if (w.scale_cols > 0) {
    alignas(64) float sums[4][16 * kPanelRows];
    constexpr size_t kBytes = 4 * kPanelRows;
    _tile_stored(0, sums[0], kBytes);
    if constexpr (B > 1) _tile_stored(1, sums[1], kBytes);
    if constexpr (A > 1) _tile_stored(2, sums[2], kBytes);
    if constexpr (A > 1 && B > 1) _tile_stored(3, sums[3], kBytes);
    for (int a = 0; a < A; ++a)
      for (int b = 0; b < B; ++b)
        add_scaled(w, panels[b], first, sums[2 * a + b], rows, out[a] + b * kPanelRows, stride);
    return;
  }
  _tile_stored(0, out[0], out_bytes);
  if constexpr (B > 1) _tile_stored(1, out[0] + kPanelRows, out_bytes);
  if constexpr (A > 1) _tile_stored(2, out[1], out_bytes);
  if constexpr (A > 1 && B > 1) _tile_stored(3, out[1] + kPanelRows, out_bytes);
}

template <int A>
void bf16_rows(const PanelSpan& span, const uint16_t* const* x, int64_t x_stride, int64_t rows, float* const* out,
               int64_t stride) {
  const PackedWeight& w = *span.weight;
  const auto panel = [&](int64_t i) { return reinterpret_cast<const uint8_t*>(w.panel(span.first + i)); };
  int64_t i = 0;
  for (; i + 2 <= span.n; i += 2) {
    const uint8_t* panels[2] = {panel(i), panel(i + 1)};
    float* to[2] = {out[0] + i * kPanelRows, out[A - 1] + i * kPanelRows};
    for (int64_t k = 0; k < w.cols; k = end_of_scale(w, k))
      bf16_tiles<A, 2>(w, panels, k, end_of_scale(w, k), x, x_stride, rows, to, stride);
  }
  if (i < span.n) {
    const uint8_t* one = panel(i);
    float* to[2] = {out[0] + i * kPanelRows, out[A - 1] + i * kPanelRows};
    for (int64_t k = 0; k < w.cols; k = end_of_scale(w, k))
      bf16_tiles<A, 1>(w, &one, k, end_of_scale(w, k), x, x_stride, rows, to, stride);
  }
}

void run_bf16_amx(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const int64_t x_stride = rows > 1 ? x[1].bf16 - x[0].bf16 : 0;
  int64_t r = 0;
  configure(16, 64);
  for (; r + 32 <= rows; r += 32) {
    const uint16_t* two[2] = {x[r].bf16, x[r + 16].bf16};
    float* to[2] = {out + r * stride, out + (r + 16) * stride};
    bf16_rows<2>(span, two, x_stride, 16, to, stride);
  }
  while (r < rows) {
    const int n = static_cast<int>(rows - r < 16 ? rows - r : 16);
    if (n < 16) configure(n, 64);
    float* to[1] = {out + r * stride};
    bf16_rows<1>(span, &x[r].bf16, x_stride, n, to, stride);
    r += n;
  }
  _tile_release();
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
