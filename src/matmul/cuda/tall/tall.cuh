// The kernel of more rows than the streaming kernel's, or than wide.cuh's where a format has that: who has it, how its
// work is cut, and how it is called.
#pragma once

#include <algorithm>

#include "matmul/cuda/stream/stream.cuh"

namespace ingot::cuda {

// Rows of x up to which packed weights are multiplied as they are. Beyond it they are unpacked once into scratch, and
// that is cheaper than unpacking them for every 256 rows.
inline constexpr int kTallRows = 256;
inline constexpr int kTallWarps = 8;        // of a block that multiply, 16 rows of the weights each
inline constexpr int kTallBodyUnits = 4;    // times 32 columns that a block's loop takes at a time
inline constexpr int kTallStepBytes = 128;  // of a row of x in a stage: 64 columns
inline constexpr int kTallMostSplit = 256;  // blocks whose sums meet in scratch

// A block for each 128 rows of the weights; their columns in `splits`, whose sums meet in scratch.
struct TallPlan {
  int x_rows = 0;  // 32, 64, 128 or 256
  int sixteens = 0, blocks = 0, splits = 1;
  int bodies = 0;  // of all columns

  int64_t x_bytes() const { return int64_t{bodies} * 2 * x_rows * kTallStepBytes; }
  int64_t sums_bytes() const { return splits == 1 ? 0 : int64_t{splits} * sixteens * (x_rows / 8) * 512; }
};
TallPlan tall_plan(const StreamedPart& part, int64_t cols, int64_t rows, int multiprocessors);

bool tall_has(Format format);
// Bytes that run_tall() takes at most for weights of so many outputs and columns.
int64_t tall_scratch(int64_t outputs, int64_t cols, int64_t rows);
// REQUIRES: run.x is given, bf16; tall_has() the part's format; `scratch` of tall_scratch() bytes, 256-byte aligned.
void run_tall(const StreamRun& run, std::byte* scratch, const DeviceCtx& ctx);

struct TallArgs {
  StreamArgs stream;
  TallPlan plan;
  int tile_rows = 0;             // of the packed weights
  const std::byte* x = nullptr;  // [step of 64 columns, row, 128 bytes]: turn_rows() in tall_cuda.cu
  float* sums = nullptr;         // [split, sixteen, octet, lane, 4]
};
// The kernel of a format.
template <class W>
void run_tall_format(const TallArgs& args, const DeviceCtx& ctx);

}  // namespace ingot::cuda
