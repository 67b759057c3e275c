// Tiles of rows of x by rows of a panel, of packed weights and of expanded ones: what every set has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_coarse.h"
#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// R rows of x against V vectors of rows of the panel from `at` on.
template <class Source, int R, int V>
inline void tile(const Source& w, int64_t cols, int zero, const XRow* x, int at, float* out, int64_t stride) {
  using L = typename Source::Layout;
  using D = Dot<L::kBits>;
  constexpr int kPairs = L::kGroup / (2 * kRun);  // of runs, in a group
  Floats acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = zero_floats();
  const int32_t start = Source::start(zero);
  for (int64_t b = 0; b < cols / kPanelBlock; ++b) {
#pragma GCC unroll 2
    for (int g = 0; g < L::kGroups; ++g) {
      D dot[R][V] = {};
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const XBlock& block = x[r].blocks[b];
        const int32_t from = start * (L::kGroups == 1 ? block.total : block.half_total[g]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) dot[r][v].begin(from);
      }
#pragma GCC unroll 4
      for (int p = 0; p < kPairs; ++p) {
        Weights even[V], odd[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) w.runs(b, g * kPairs + p, at + v * kVecRows, even[v], odd[v]);
        const int64_t k = b * kPanelBlock + 2 * kRun * (g * kPairs + p);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) dot[r][v].add(even[v], x[r].q + k, x[r].wide + k);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) {
            dot[r][v].add(odd[v], x[r].q + k + kRun, x[r].wide + k + kRun);
            dot[r][v].end_pair(p);
          }
      }
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const int64_t group = b * L::kGroups + g;
        const Floats scale = w.scale(group, at + v * kVecRows);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
          acc[r][v] =
              multiply_add(Source::floats(dot[r][v].result()), times(all(x[r].blocks[b].scale), scale), acc[r][v]);
        if constexpr (L::kMin) {
          const Floats min = w.min(group, at + v * kVecRows);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) {
            const XBlock& block = x[r].blocks[b];
            acc[r][v] = multiply_add(min, all(L::kGroups == 1 ? block.sum : block.half_sum[g]), acc[r][v]);
          }
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store_floats(out + r * stride + at + v * kVecRows, acc[r][v]);
}

// All rows, R at a time while so many are left, then half as many.
template <class Source, int R>
void tiles(const Source& w, int64_t cols, int zero, const XRow* x, int64_t rows, float* out, int64_t stride) {
  constexpr int kVecs = R <= kSoloRows ? kSoloVecs : kTileVecs;
  for (; rows >= R; rows -= R, x += R, out += R * stride)
    for (int at = 0; at < kPanelRows; at += kVecRows * kVecs) {
      if constexpr (Source::Layout::kCoarse) {
        coarse_tile<Source, R, kVecs>(w, cols, zero, x, at, out, stride);
      } else {
        tile<Source, R, kVecs>(w, cols, zero, x, at, out, stride);
      }
    }
  if constexpr (R > 1) {
    if (rows > 0) tiles<Source, R / 2>(w, cols, zero, x, rows, out, stride);
  }
}

template <class L>
void run_packed(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  for (int64_t i = 0; i < span.n; ++i) {
    const PackedSource<L> source(w, span.first + i);
    tiles<PackedSource<L>, kDirectRows>(source, w.cols, w.zero, x, rows, out + i * kPanelRows, stride);
  }
}

template <class L>
void expand_panels(const PanelSpan& span, std::byte* memory) {
  const PackedWeight& w = *span.weight;
  const int64_t bytes = ExpandedLayout<L>::bytes(w.cols);
  for (int64_t i = 0; i < span.n; ++i)
    Expanded<L>::fill(PackedSource<L>(w, span.first + i), w.cols, w.zero, memory + i * bytes);
}

// Some rows of x stay in the L1 cache while all panels pass, which stay in the second.
template <class L>
void run_many(const PanelSpan& span, const std::byte* memory, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& w = *span.weight;
  const int64_t bytes = ExpandedLayout<L>::bytes(w.cols);
  for (int64_t r = 0; r < rows; r += kTileXRows) {
    const int64_t n = rows - r < kTileXRows ? rows - r : kTileXRows;
    for (int64_t i = 0; i < span.n; ++i) {
      const Expanded<L> source(memory + i * bytes, w.cols);
      tiles<Expanded<L>, kTileXRows>(source, w.cols, w.zero, x + r, n, out + r * stride + i * kPanelRows, stride);
    }
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
