// Groups of 128: x has a scale for each 128 values as well, so that the integer sum of a whole group becomes a float at
// once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// acc and the integer sum of a group of 128, of weights to which `start` has to be added.
template <class Source>
inline Floats add_group(const Source& w, int64_t g, int at, Ints sum, int32_t start, const XBlock& x, Floats acc) {
  constexpr ScaleKind kScale = Source::Layout::kScale;
  sum = add_ints(sum, all_ints(start * x.total));
  if constexpr (kScale == ScaleKind::kF16Zero) sum = minus_product(sum, w.zeros(g, at), x.total);
  if constexpr (kScale == ScaleKind::kRow) return multiply_add(Source::floats(sum), all(x.scale), acc);
  return multiply_add(Source::floats(sum), times(all(x.scale), w.scale(g, at)), acc);
}
template <class Source>
inline Floats scale_row(const Source& w, int at, Floats acc) {
  return Source::Layout::kScale == ScaleKind::kRow ? times(acc, w.scale(0, at)) : acc;
}

// R rows of x against V vectors of rows of the panel from `at` on.
template <class Source, int R, int V>
inline void coarse_tile(const Source& w, int64_t cols, int zero, const XRow* x, int at, float* out, int64_t stride) {
  using L = typename Source::Layout;
  using D = Dot<L::kBits>;
  Floats acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = zero_floats();
  const int32_t start = Source::start(zero);
  const int64_t blocks = cols / kPanelBlock;
  constexpr int64_t kOfGroup = kPanelCoarse / kPanelBlock;
  for (int64_t g = 0; g * kOfGroup < blocks; ++g) {
    D dot[R][V] = {};
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) dot[r][v].begin(0);
    const int64_t end = blocks < (g + 1) * kOfGroup ? blocks : (g + 1) * kOfGroup;
    for (int64_t b = g * kOfGroup; b < end; ++b) {
#pragma GCC unroll 4
      for (int p = 0; p < kRunPairs; ++p) {
        Weights even[V], odd[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) w.runs(b, p, at + v * kVecRows, even[v], odd[v]);
        const int64_t k = b * kPanelBlock + 2 * kRun * p;
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) {
            dot[r][v].add(even[v], x[r].coarse.q + k, x[r].coarse.wide + k);
            dot[r][v].add(odd[v], x[r].coarse.q + k + kRun, x[r].coarse.wide + k + kRun);
          }
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) dot[r][v].end_block();
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        acc[r][v] =
            add_group(w, g, at + v * kVecRows, dot[r][v].long_result(), start, x[r].coarse.blocks[g], acc[r][v]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v)
      store_floats(out + r * stride + at + v * kVecRows, scale_row(w, at + v * kVecRows, acc[r][v]));
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
