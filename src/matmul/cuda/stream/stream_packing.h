// Where each weight lies in what the streaming kernel reads (stream_cuda.cu). Plain functions, for the kernel
// that packs and for tests on the host.
//
// The rows of all parts are dealt to tiles of 16, 32 or 48 rows; a tile's chunks of one or some times 32 columns lie
// one after another, and a chunk is read by one bulk copy. In a chunk the weights are in the order in which lanes hold
// mma.m16n8k16's operand A, 16 bits each [16 rows][half of the columns][lane][16 bytes], others as stream_codes.cuh
// says, with the 32 columns permuted: lane t of four has the columns 8t … 8t + 7, so that one 16-byte load of x feeds
// both halves. Columns and rows beyond the matrix are zeros.
//
// Rows that an epilogue needs together (gate and up; the two ends of rope's pairs) are pairs: the first ends lie in
// rows 0 … 7 of each 16 of the tile, the second in rows 8 … 15.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/host_device.h"

namespace ingot::cuda {

inline constexpr int kStreamCols = 32;  // of a unit
// Rows of x up to which the streaming kernel reads packed weights (stream_cuda.cu). With 16 rows its tiles read
// x too often: a layer of an 8B model takes 146 us of an H200 by it, 130 by the kernel of taller tiles.
inline constexpr int kStreamRows = 8;
// Rows up to which linears that have something fused in read them by the kernel of taller tiles (wide_cuda.cu):
// four linears take 121 us at 32 rows where cuBLASLt and the launches around it take 135.
inline constexpr int kWideRows = 32;

enum class RowOrder : uint8_t {
  kPlain,  // the rows of the parts, one part after another
  kGlu,    // pairs: row j of gate and of up
  kHeads,  // pairs of q, k and v in turn: what rope turns together, and neighbours where it does not turn
};

struct RowMap {
  RowOrder order = RowOrder::kPlain;
  int parts = 1;
  int64_t rows[3] = {};  // of each part
  // kHeads; all of them even.
  int head_dim = 0;
  int rotary = 0;
  bool interleaved = false;

  INGOT_HD constexpr int64_t total() const { return rows[0] + rows[1] + rows[2]; }
};

// Two rows of a part. `angle`: which of rope's angles turns them, -1 for none.
struct RowPair {
  int part = -1;  // -1: beyond the last
  int64_t first = 0, second = 0;
  int angle = -1;
};

// Pair j of the order kHeads.
INGOT_HD constexpr RowPair heads_pair(const RowMap& map, int64_t j) {
  int part = 0;
  while (part < 3 && 2 * j >= map.rows[part]) j -= map.rows[part++] / 2;
  if (part == 3) return {};
  if (part == 2) return {2, 2 * j, 2 * j + 1, -1};
  // In 32 bits: a division of 64 takes a GPU some 100 instructions.
  const int half = map.head_dim / 2, head = static_cast<int>(j) / half, i = static_cast<int>(j) % half;
  const int64_t base = int64_t{head} * map.head_dim;
  if (2 * i >= map.rotary || map.interleaved)
    return {part, base + 2 * i, base + 2 * i + 1, 2 * i < map.rotary ? i : -1};
  return {part, base + i, base + i + map.rotary / 2, i};
}

struct PartRow {
  int part = -1;  // -1: none, zeros
  int64_t row = 0;
};

// Row p of tile `tile`.
INGOT_HD constexpr PartRow packed_row(const RowMap& map, int tile_rows, int64_t tile, int p) {
  if (map.order == RowOrder::kPlain) {
    int64_t n = tile * tile_rows + p;
    int part = 0;
    while (part < map.parts && n >= map.rows[part]) n -= map.rows[part++];
    return part < map.parts ? PartRow{part, n} : PartRow{};
  }
  const int64_t j = (tile * tile_rows + p / 16 * 16) / 2 + p % 8;
  const bool second = p % 16 >= 8;
  if (map.order == RowOrder::kGlu) return j < map.rows[0] ? PartRow{second ? 1 : 0, j} : PartRow{};
  const RowPair pair = heads_pair(map, j);
  return {pair.part, second ? pair.second : pair.first};
}

INGOT_HD constexpr int64_t stream_tiles(const RowMap& map, int tile_rows) {
  return (map.total() + tile_rows - 1) / tile_rows;
}
// Units of 32 columns; a chunk is `units` of them, as the format has it.
INGOT_HD constexpr int64_t stream_units(int64_t cols) { return (cols + kStreamCols - 1) / kStreamCols; }
INGOT_HD constexpr int64_t stream_chunks(int64_t cols, int units) {
  return (cols + kStreamCols * units - 1) / (kStreamCols * units);
}

// The place of a piece of 8 weights: columns 4s … 4s + 3 of lane t's eight, of rows g and g + 8 of 16 rows m.
struct Piece {
  int64_t tile, chunk;
  int m, s, g, t;
};
INGOT_HD constexpr Piece piece_at(int64_t index, int tile_rows, int64_t chunks) {
  const int lane = static_cast<int>(index % 32), s = static_cast<int>(index / 32 % 2);
  const int64_t block = index / 64;
  const int64_t chunk = block / (tile_rows / 16);
  return {chunk / chunks, chunk % chunks, static_cast<int>(block % (tile_rows / 16)), s, lane / 4, lane % 4};
}
// Weight e of a piece: its row in the tile and its column in the chunk.
INGOT_HD constexpr int piece_row(const Piece& p, int e) { return p.m * 16 + p.g + (e / 2 % 2) * 8; }
INGOT_HD constexpr int piece_col(const Piece& p, int e) { return 8 * p.t + 4 * p.s + e / 4 * 2 + e % 2; }

// The rows of a tile for `total` rows: of the sizes whose slowest multiprocessor has the least to do (5 % is no
// difference) the largest, because every tile reads x again.
constexpr int stream_tile_rows(int64_t total, int multiprocessors, int most_rows) {
  int best = 16;
  int64_t best_rows = 0;
  for (const int rows : {16, 32, 48}) {
    if (rows > most_rows) break;
    const int64_t tiles = (total + rows - 1) / rows;
    const int64_t most = (tiles + multiprocessors - 1) / multiprocessors * rows;
    if (best_rows == 0 || most * 100 <= best_rows * 105) {
      best = rows;
      best_rows = most;
    }
  }
  return best;
}

}  // namespace ingot::cuda
