// Products of nine and more rows of e4m3 with weights of e4m3, as they lie in memory: for prompts and for decoding of
// many seqs. Rows are operand A of wgmma.cuh, packed weights operand B, both out of shared memory.
#pragma once

#include "matmul/cuda/f8/f8.h"
#include "matmul/cuda/stream/stream.cuh"

namespace ingot::cuda {

// A tile is tile_rows rows of x times tile_cols outputs; their columns in `splits`, blocks that hand each other their
// sums.
struct F8Plan {
  int tile_rows = 128, tile_cols = 128;  // 64 x 128, 128 x 128 or 128 x 256
  int rows = 0;                          // of tiles
  int cols = 0;                          // of tiles
  int splits = 1;                        // 1, 2 or 4; more than 1: there are no more blocks than multiprocessors
  int chunks = 0;                        // of 128 columns

  __host__ __device__ constexpr int64_t tiles() const { return int64_t{rows} * cols; }
};
F8Plan f8_plan(int64_t rows, int64_t sixteens, int64_t chunks, int multiprocessors);

// Whether there are kernels for rows of e4m3.
bool f8_takes(const DeviceProduct& product, int arch);
// Whether a weight has more than one scale along its columns.
bool f8_by_blocks(const DeviceProduct& product);

int64_t f8_packed_bytes(const StreamedPart& part, int64_t cols);
void pack_f8(const DeviceProduct& product, const StreamedPart& part, std::byte* to, const DeviceCtx& ctx);

// Rows as f8_rows.cuh says.
struct F8Rows {
  std::byte* codes = nullptr;  // [chunk of 128 columns, row, 128]: of eight rows, permuted as matrices by rows are
  float* scales = nullptr;     // [chunk, row]
  int rows = 0;                // between chunks: a multiple of 8

  static int padded(int64_t rows) { return static_cast<int>((rows + 7) / 8 * 8); }
};
// Bytes of codes and of scales.
constexpr int64_t f8_code_bytes(int64_t rows, int64_t cols) { return piece_bytes((rows + 7) / 8 * 8 * cols); }
constexpr int64_t f8_scale_bytes(int64_t rows, int64_t cols) { return piece_bytes((rows + 7) / 8 * 8 * cols / 32); }
// The most columns of rows that are normed on the way.
inline constexpr int kF8NormCols = 16384;
// `rooted`: what is rounded is the norm; else x times its weight, and the root goes into the scale.
void make_f8_rows(const InputArgs& in, const int32_t* gather, bool rooted, int64_t rows, const F8Rows& out,
                  const DeviceCtx& ctx);

struct F8Args {
  StreamArgs stream;
  F8Plan plan;
  int sixteens = 0;     // of the weights' rows
  int packed_tile = 0;  // rows of a tile as they are packed
  bool weights_once = false;
  F8Rows x;
  float* handed = nullptr;  // [block, sixteen of the tile, octet, lane, 4]
  // Where a row of outputs goes as one: all parts one after another, or the units of gate and up. data null: each part
  // where it says.
  View to;
  const float* bias = nullptr;
  View residual;
};
// REQUIRES: run.product is of pack_f8_product(); run.x is made.
struct F8Run {
  const DeviceProduct* product = nullptr;
  const StreamedPart* part = nullptr;
  int64_t rows = 0;
  F8Rows x;
  PartOut outs[3];
  View to;  // as F8Args has it
};
void run_f8(const F8Run& run, const DeviceCtx& ctx);

}  // namespace ingot::cuda
