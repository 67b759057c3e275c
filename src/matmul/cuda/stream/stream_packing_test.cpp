#include "matmul/cuda/stream/stream_packing.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

namespace ingot {
namespace {

void check_packing(const cuda::RowMap& map, int tile_rows, int64_t cols) {
  const int64_t chunks = cuda::stream_units(cols), tiles = cuda::stream_tiles(map, tile_rows);
  std::map<std::tuple<int, int64_t, int64_t>, int> seen;
  for (int64_t i = 0; i < tiles * chunks * tile_rows * 4; ++i) {
    const cuda::Piece piece = cuda::piece_at(i, tile_rows, chunks);
    ASSERT_LT(piece.tile, tiles);
    for (int e = 0; e < 8; ++e) {
      const cuda::PartRow at = cuda::packed_row(map, tile_rows, piece.tile, cuda::piece_row(piece, e));
      const int64_t col = piece.chunk * cuda::kStreamCols + cuda::piece_col(piece, e);
      if (at.part >= 0 && col < cols) ++seen[{at.part, at.row, col}];
    }
  }
  size_t all = 0;
  for (int p = 0; p < map.parts; ++p) {
    for (int64_t r = 0; r < map.rows[p]; ++r)
      for (int64_t k = 0; k < cols; ++k, ++all) ASSERT_EQ((seen[{p, r, k}]), 1) << p << ", " << r << ", " << k;
  }
  EXPECT_EQ(seen.size(), all);
}

TEST(LinearPacking, EveryWeightIsPackedOnce) {
  for (const int tile_rows : {16, 32, 48}) {
    for (const int64_t cols : {1, 32, 45, 96}) {
      check_packing({.order = cuda::RowOrder::kPlain, .parts = 1, .rows = {33}}, tile_rows, cols);
      check_packing({.order = cuda::RowOrder::kPlain, .parts = 3, .rows = {5, 70, 1}}, tile_rows, cols);
      check_packing({.order = cuda::RowOrder::kGlu, .parts = 2, .rows = {37, 37}}, tile_rows, cols);
      for (const bool interleaved : {false, true}) {
        check_packing({.order = cuda::RowOrder::kHeads,
                       .parts = 3,
                       .rows = {48, 32, 20},
                       .head_dim = 16,
                       .rotary = 8,
                       .interleaved = interleaved},
                      tile_rows, cols);
      }
    }
  }
}

// 132 multiprocessors: the shapes of an 8B Llama fill them evenly.
TEST(LinearPacking, TilesFillTheDevice) {
  EXPECT_EQ(cuda::stream_tile_rows(4096, 132, 48), 32);
  EXPECT_EQ(cuda::stream_tile_rows(6144, 132, 48), 48);
  EXPECT_EQ(cuda::stream_tile_rows(28672, 132, 48), 32);
  EXPECT_EQ(cuda::stream_tile_rows(576, 132, 48), 16);
  EXPECT_EQ(cuda::stream_tile_rows(6144, 132, 32), 16);
}

}  // namespace
}  // namespace ingot
