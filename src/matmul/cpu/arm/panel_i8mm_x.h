// Rows of x packed in tiles of six, as smmla reads them.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "cpu/isa_source.h"
#include "matmul/cpu/panel_kernels.h"

namespace ingot::cpu::INGOT_ISA {
namespace {

constexpr int64_t kXRows = 6;  // of a packed tile

// How many of the rows are in the tile of the first, which begins one. They are not asked: 512 XRows are 40 KB.
inline int64_t rows_of_tile(int64_t rows) { return rows < kXRows ? rows : kXRows; }

// A packed tile of rows of x, or a piece of its K: for each block of 32 the bytes, for each run and pair of rows 8 of
// the one, 8 of the other; behind them the fields of XBlock that kernels ask for, one after the other, the values of a
// pair side by side, twice: as their 2 × 2 sums want them (a load that repeats them takes a vector pipe as well: 37.4
// against 35.6 cycles for a block of Q4_1). All is read once in this order: with each field in an array of its own, a
// block of Q4_0 took 28.7 cycles where x came from L2, now 27. For groups of 128 the bytes of all blocks
// come first, then the scales, then the totals. A row that is missing is the one before it again.
struct XTile {
  enum Field { kScale, kSum, kHalfSum, kTotal = 4, kHalfTotal };  // halves: two fields each
  static constexpr int kCoarseTotal = 1;
  const int8_t* q;
  const std::byte* fields;
  int64_t pairs;
  int64_t step;                   // bytes from a block of 32 to the next
  int64_t field_step, field_gap;  // from a field to that of the next block, and to the next field

  // `blocks` of 32 are in it.
  XTile(const std::byte* at, int64_t rows, int64_t blocks, int n_fields, bool coarse)
      : q(reinterpret_cast<const int8_t*>(at)), pairs((rows + 1) / 2) {
    step = pairs * (coarse ? 64 : 64 + 16 * n_fields);
    fields = at + pairs * 64 * (coarse ? blocks : 1);
    field_step = coarse ? 16 * pairs : step;
    field_gap = 16 * pairs * (coarse ? (blocks + kOfCoarse - 1) / kOfCoarse : 1);
  }
  // From a block on, for groups of 128 one that begins a group.
  XTile from(int64_t block, bool coarse) const {
    XTile t = *this;
    t.q += block * step;
    t.fields += (coarse ? block / kOfCoarse : block) * field_step;
    return t;
  }
  // Run `run` of block b; field of XBlock b.
  const int8_t* run(int64_t b, int run) const { return q + b * step + 16 * pairs * run; }
  const float* field(int which, int64_t b) const {
    return reinterpret_cast<const float*>(fields + b * field_step + which * field_gap);
  }

  static constexpr int64_t kOfCoarse = kPanelCoarse / kPanelBlock;
};

inline int64_t tile_bytes(int64_t cols) { return cols / kPanelBlock * 8 * kXRows * (4 + kAllFields); }

// Blocks of K at once. Those of one panel are 20 or 24 KB with their scales and stay in the L1 cache beside
// two tiles of x: 27 cycles for a block of Q4_0 and six rows, with two panels of them 29.9, though all would fit 64 KB.
constexpr int64_t kPieceBlocks = 32;

int64_t piece_blocks(int64_t cols, bool coarse) {
  const int64_t blocks = cols / kPanelBlock, pieces = (blocks + kPieceBlocks - 1) / kPieceBlocks;
  return coarse ? kPieceBlocks : (blocks + pieces - 1) / pieces;
}

inline int64_t tile_piece_bytes(int64_t cols, int fields, bool coarse) {
  const int64_t blocks = piece_blocks(cols, coarse);
  return 8 * kXRows * (coarse ? 4 * blocks + (blocks + 3) / 4 * 2 : blocks * (4 + fields));
}

// Fields [which, which + n) of two rows: the first n of a and b.
inline void put_fields(const XTile& tile, int which, int64_t b, int64_t pair, int n, float32x4_t first,
                       float32x4_t second) {
  const float64x2_t low = vreinterpretq_f64_f32(vzip1q_f32(first, second));
  const float64x2_t high = vreinterpretq_f64_f32(vzip2q_f32(first, second));
  const auto put = [&](int i, float64x2_t both) {
    vst1q_f32(const_cast<float*>(tile.field(which + i, b)) + 4 * pair, vreinterpretq_f32_f64(both));
  };
  put(0, vdupq_laneq_f64(low, 0));
  if (n > 1) put(1, vdupq_laneq_f64(low, 1));
  if (n > 2) put(2, vdupq_laneq_f64(high, 0));
  if (n > 3) put(3, vdupq_laneq_f64(high, 1));
}

// Blocks [first, first + n) of rows a and b as pair i of a tile that begins with them.
inline void pack_pair(const XTile& tile, int64_t i, const XRow& a, const XRow& b, int64_t first, int64_t n,
                      bool coarse) {
  const int8_t* qa = (coarse ? a.coarse.q : a.q) + first * kPanelBlock;
  const int8_t* qb = (coarse ? b.coarse.q : b.q) + first * kPanelBlock;
  const XBlock *ba = coarse ? a.coarse.blocks : a.blocks, *bb = coarse ? b.coarse.blocks : b.blocks;
  const auto floats = [](const XBlock& block, int at) {
    return vld1q_f32(reinterpret_cast<const float*>(&block) + at);
  };
  static_assert(kPanelBlock == 4 * kRun);
  for (int64_t g = 0; g < n; ++g) {
    int8_t* to = const_cast<int8_t*>(tile.run(g, 0)) + 16 * i;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const int64_t k = g * kPanelBlock + 16 * h;
      const int64x2_t va = vreinterpretq_s64_s8(vld1q_s8(qa + k)), vb = vreinterpretq_s64_s8(vld1q_s8(qb + k));
      vst1q_s8(to + 32 * tile.pairs * h, vreinterpretq_s8_s64(vzip1q_s64(va, vb)));
      vst1q_s8(to + 32 * tile.pairs * h + 16 * tile.pairs, vreinterpretq_s8_s64(vzip2q_s64(va, vb)));
    }
    if (coarse && g % XTile::kOfCoarse != 0) continue;
    const int64_t c = coarse ? g / XTile::kOfCoarse : g, from = coarse ? first / XTile::kOfCoarse : first;
    const XBlock &xa = ba[from + c], &xb = bb[from + c];
    if (coarse) {
      put_fields(tile, XTile::kScale, c, i, 1, floats(xa, 0), floats(xb, 0));
      put_fields(tile, XTile::kCoarseTotal, c, i, 1, floats(xa, 4), floats(xb, 4));
    } else {
      put_fields(tile, XTile::kScale, c, i, a.tile_fields, floats(xa, 0), floats(xb, 0));
      if (a.tile_fields == kAllFields) put_fields(tile, XTile::kTotal, c, i, 3, floats(xa, 4), floats(xb, 4));
    }
  }
}

inline void pack_tile(const XRow* x, int64_t rows, int64_t cols, bool coarse, std::byte* to) {
  const int64_t gap = coarse ? x->coarse_gap : x->tile_gap, blocks = cols / kPanelBlock;
  const int64_t piece = gap == 0 ? blocks : piece_blocks(cols, coarse);
  for (int64_t first = 0; first < blocks; first += piece, to += gap) {
    const XTile tile(to, rows, piece, x->tile_fields, coarse);
    for (int64_t i = 0; i < tile.pairs; ++i)
      pack_pair(tile, i, x[2 * i], x[2 * i + 1 < rows ? 2 * i + 1 : 2 * i], first,
                blocks < first + piece ? blocks - first : piece, coarse);
  }
}

}  // namespace
}  // namespace ingot::cpu::INGOT_ISA
