// Panels of 16-bit floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// 16-bit floats: P panels at once, so that several sums are in flight with few rows.
// Columns [first, end) share a scale.
template <bool kBf16, int R, int P>
inline void float_tile(const PackedWeight& weight, const uint8_t* const* panels, int64_t first, int64_t end,
                       const XRow* x, int at, float* out, int64_t stride) {
  Floats acc[R][P];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) acc[r][p] = zero_floats();
  const auto step = [&](int64_t k, auto load) {
    Floats w[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) w[p] = load(panels[p]);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[r][p] = multiply_add(w[p], all(x[r].values[k]), acc[r][p]);
  };
  if constexpr (kBf16) {
    constexpr int64_t kSide = kBf16Group;
    for (int64_t k = first; k < end; k += kSide) {
      const int64_t n = end - k < kSide ? end - k : kSide;
#pragma GCC unroll 4
      for (int64_t i = 0; i < kSide; ++i)
        if (i < n)
          step(k + i, [&](const uint8_t* p) { return load_bf16(p + 32 * k + 2 * kSide * at, static_cast<int>(i)); });
    }
  } else {
    for (int64_t k = first; k < end; ++k) step(k, [&](const uint8_t* p) { return load_halves(p + 32 * k + 2 * at); });
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      float* to = out + r * stride + p * kPanelRows + at;
      if (weight.scale_cols > 0) {
        const Floats before = first == 0 ? zero_floats() : load_floats(to);
        acc[r][p] = multiply_add(acc[r][p], load_floats(scales_of(weight, panels[p], first) + at), before);
      }
      store_floats(to, acc[r][p]);
    }
}

template <bool kBf16, int R, int P>
void float_rows(const PackedWeight& w, const uint8_t* const* panels, const XRow* x, int64_t rows, float* out,
                int64_t stride) {
  for (; rows >= R; rows -= R, x += R, out += R * stride)
    for (int at = 0; at < kPanelRows; at += kVecRows)
      for (int64_t first = 0; first < w.cols; first = end_of_scale(w, first))
        float_tile<kBf16, R, P>(w, panels, first, end_of_scale(w, first), x, at, out, stride);
  if constexpr (R > 1) {
    if (rows > 0) float_rows<kBf16, R / 2, P>(w, panels, x, rows, out, stride);
  }
}

template <bool kBf16>
void run_floats(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  const auto panel = [&](int64_t i) { return reinterpret_cast<const uint8_t*>(w.panel(span.first + i)); };
  int64_t i = 0;
  for (; i + kFloatPanels <= span.n; i += kFloatPanels) {
    const uint8_t* panels[kFloatPanels];
    for (int p = 0; p < kFloatPanels; ++p) panels[p] = panel(i + p);
    float_rows<kBf16, kFloatRows, kFloatPanels>(w, panels, x, rows, out + i * kPanelRows, stride);
  }
  for (; i < span.n; ++i) {
    const uint8_t* one = panel(i);
    float_rows<kBf16, kFloatRows, 1>(w, &one, x, rows, out + i * kPanelRows, stride);
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
