// q, k and v of one to eight rows in one launch where they are of two formats and their heads have norms: the weights
// of both stream past at once, and what blocks make of them is handed to those that end whole heads. In launches of
// their own the two formats of Q4_K_M and the heads are three starts and ends of a kernel. Of one format it is slower
// than two launches: 18.2 us of an H200 where they take 14.9 (Qwen3-30B-A3B in BF16, one row, each timed by itself).
#pragma once

#include "matmul/cuda/heads_item.cuh"
#include "matmul/cuda/stream/piece_ring.cuh"

namespace ingot::cuda {

// Packed rows of some parts.
struct HeadsWeights {
  const std::byte* weights = nullptr;
  int chunks = 0;    // of a tile
  int sixteens = 0;  // rows of a tile, by 16
  int all = 0;       // rows, by 16
  // Rows by 16 of q, k and v that it has, in this order, and columns where they belong.
  int rows[3] = {}, first_col[3] = {};
};

struct StreamHeadsArgs {
  HeadsWeights of[2];
  int units = 0;  // of x: 32 columns each
  int rows = 0;   // of x
  int cols = 0;   // of q, k and v
  NormLink from;
  HeadsInput heads;
  float* handed = nullptr;  // [rows][cols]; kNothing, and left so
};

// Bytes of the ring of weights at most: attention's block must find room beside this one.
inline constexpr int kHeadsRing = 72 << 10;
// Bytes between rows of x in shared memory: the eight rows of a load lie in different banks.
__host__ __device__ constexpr int heads_x_row(int units) { return units * kStreamCols * 2 + 32; }
// A block's shared memory: its ring, x, and the sums of as many sixteens of packed rows as it may have.
constexpr int64_t heads_shared(int64_t ring, int64_t rows, int64_t units, int64_t sixteens) {
  return ring + rows * heads_x_row(static_cast<int>(units)) + (kStreamRows + sixteens * rows * 16 * kSumRow) * 4;
}

// Whether it takes a product whose norm the product before has made.
bool stream_heads_takes(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx);
void run_stream_heads(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx);

// The kernel of two formats. Sets chunks.
template <class G, class D>
void run_heads_formats(StreamHeadsArgs args, const DeviceCtx& ctx);

}  // namespace ingot::cuda
