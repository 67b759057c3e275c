// smmla: several rows of x by panels, as they are packed or expanded.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "matmul/cpu/arm/panel_i8mm_expanded.h"
#include "matmul/cpu/arm/panel_i8mm_packed.h"
#include "matmul/cpu/arm/panel_i8mm_pairs.h"
#include "matmul/cpu/panel_sources.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

// Half of what n blocks of a tile take, where a kernel asks for two lines with each block, or with mins for three.
template <bool kMin>
inline Ahead lines_of(const XTile& x, int64_t n, int half) {
  const auto* q = reinterpret_cast<const std::byte*>(x.q) + 64 * n * half * (kMin ? 3 : 2);
  return {q, q + 64 * n, q + 64 * n * (kMin && half == 0 ? 2 : 1)};
}

#include "matmul/cpu/arm/panel_i8mm_expanded.h"
template <class L>
inline void pair_tiles(const PackedSource<L>& w, int64_t first, int64_t end, int64_t blocks, int zero, const XTile& x,
                       int at, int64_t rows, float* out, int64_t stride) {
  if constexpr (kPackedTile<L>) {
    const bool from_zero = PackedSource<L>::start(zero) == 0;
    if (from_zero && rows > 4) return packed_tile<L, 3>(w, blocks, x, at, rows, out, stride);
    if (from_zero && rows > 2) return packed_tile<L, 2>(w, blocks, x, at, rows, out, stride);
  }
  if (rows > 4) {
    pair_tile<PackedSource<L>, 3>(w, first, end, blocks, zero, x, at, rows, out, stride);
  } else if (rows > 2) {
    pair_tile<PackedSource<L>, 2>(w, first, end, blocks, zero, x, at, rows, out, stride);
  } else {
    pair_tile<PackedSource<L>, 1>(w, first, end, blocks, zero, x, at, rows, out, stride);
  }
}
// Three pairs and an expanded panel.
template <class L>
inline void pair_tiles(const ExpandedSource<L>& w, int64_t first, int64_t end, int64_t blocks, int zero, const XTile& x,
                       int at, int64_t rows, float* out, int64_t stride, const Ahead& ahead) {
  if (rows > 4) {
    tile_of_three(w, first, end, blocks, x, at, rows, out, stride, ahead);
  } else if (rows > 2) {
    pair_tile<ExpandedSource<L>, 2>(w, first, end, blocks, zero, x, at, rows, out, stride);
  } else {
    pair_tile<ExpandedSource<L>, 1>(w, first, end, blocks, zero, x, at, rows, out, stride);
  }
}

template <class L>
const std::byte* tile_of(const XRow& x) {
  return L::kCoarse ? x.coarse_tile : x.tile;
}
// The tile that begins with row x, from block `first` on, which begins piece i, of `piece` blocks.
template <class L>
inline XTile x_tile(const XRow& x, int64_t rows, int64_t cols, int64_t first, int64_t i, int64_t piece) {
  const std::byte* at = tile_of<L>(x);
  const int64_t gap = L::kCoarse ? x.coarse_gap : x.tile_gap;
  if (gap != 0) return XTile(at + i * gap, rows, piece, x.tile_fields, L::kCoarse);
  const XTile all(at, rows, cols / kPanelBlock, x.tile_fields, L::kCoarse);
  return first == 0 ? all : all.from(first, L::kCoarse);
}

template <class L>
void run_many_i8mm(const PanelSpan& span, const std::byte* memory, const XRow* x, int64_t rows, float* out,
                   int64_t stride) {
  const PackedWeight& weight = *span.weight;
  const int64_t cols = weight.cols, bytes = ExpandedLayout<L>::bytes(cols), blocks = cols / kPanelBlock;
  const int64_t piece = piece_blocks(cols, L::kCoarse);
  for (int64_t first = 0, index = 0; first < blocks; first += piece, ++index) {
    const int64_t end = blocks < first + piece ? blocks : first + piece;
    for (int64_t i = 0; i < span.n; ++i) {
      const Expanded<L> w(memory + i * bytes, cols);
      for (int64_t r = 0, n = 0; r < rows; r += n) {
        n = rows_of_tile(rows - r);
        const XTile tile = x_tile<L>(x[r], n, cols, first, index, piece);
        const XTile next = x_tile<L>(x[r + n < rows ? r + n : 0], kXRows, cols, first, index, piece);
        for (int at = 0; at < kPanelRows; at += 8)
          pair_tiles(w, first, end, blocks, weight.zero, tile, at, n, out + r * stride + i * kPanelRows + at, stride,
                     lines_of<L::kMin>(next, end - first, at / 8));
      }
    }
  }
}

// Two to some rows, of panels as they are packed.
template <class L>
void run_some_i8mm(const PanelSpan& span, const XRow* x, int64_t rows, float* out, int64_t stride) {
  const PackedWeight& weight = *span.weight;
  const int64_t cols = weight.cols, blocks = cols / kPanelBlock;
  for (int64_t i = 0; i < span.n; ++i) {
    const PackedSource<L> w(weight, span.first + i);
    for (int64_t r = 0, n = 0; r < rows; r += n) {
      n = rows_of_tile(rows - r);
      const XTile tile = x_tile<L>(x[r], n, cols, 0, 0, blocks);
      if constexpr (kPackedTile<L>) {
        const int64_t left = rows - r - n;
        if (n == kXRows && (left == 1 || left == 2) && PackedSource<L>::start(weight.zero) == 0) {
          const XTile rest = x_tile<L>(x[r + n], left, cols, 0, 0, blocks);
          packed_eight(w, blocks, tile, rest, n + left, out + r * stride + i * kPanelRows, stride);
          break;
        }
      }
      float* to = out + r * stride + i * kPanelRows;
      if constexpr (kSuperTile<L>) {
        super_tiles(w, blocks, tile, n, to, stride);
        continue;
      }
      if constexpr (kPackedPair<L>) {
        if (n <= 2 && PackedSource<L>::start(weight.zero) == 0) {
          packed_pair(w, blocks, tile, n, to, stride);
          continue;
        }
      }
      for (int at = 0; at < kPanelRows; at += 8)
        pair_tiles(w, 0, blocks, blocks, weight.zero, tile, at, n, to + at, stride);
    }
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
