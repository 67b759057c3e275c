// The kernel of more rows than the streaming kernel's, or than wide.cuh's where a format has that: who has it, how its
// work is cut, and how it is called.
#pragma once

#include <algorithm>

#include "matmul/cuda/experts/experts.cuh"
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

// Products of several groups in one launch, each with weights of its own: experts, whose places are listed on the
// device, or heads, all of which meet the same rows. A tile is some places or rows of one group. Sums are never split.
struct TallGroups {
  int64_t stride = 0;  // bytes from the weights of one group to those of the next; 0: there is one product
  int64_t tiles = 0;   // at most
  ExpertList list;     // or none:
  int row_tiles = 0;   // tiles of a group
  int rows = 0;        // of a group
  // A row for each place, or row; outputs of group g from column g · out_apart on.
  View out;
  int out_apart = 0, outputs = 0;
  const float* bias[2] = {};  // [groups · outputs] of each part, or null
  ActivationKind glu = ActivationKind::kNone;

  __host__ __device__ constexpr explicit operator bool() const { return stride != 0; }
};

// Tile `index` of at most x_rows places. False: there is none.
__device__ inline bool find_tile(const TallGroups& groups, int index, int x_rows, ExpertTile& tile) {
  if (groups.list.tiles != nullptr) {
    if (index >= *groups.list.n_tiles) return false;
    tile = groups.list.tiles[index];
    return true;
  }
  tile.expert = index / groups.row_tiles;
  tile.first = (index - tile.expert * groups.row_tiles) * x_rows;
  tile.count = min(x_rows, groups.rows - tile.first);
  return true;
}
// Where a tile's x begins, in rows.
__device__ inline int64_t tile_x(const TallGroups& groups, const ExpertTile& tile) {
  return groups.list.tiles != nullptr ? tile.first : int64_t{tile.expert} * groups.rows + tile.first;
}

struct TallArgs {
  StreamArgs stream;
  TallPlan plan;
  int tile_rows = 0;  // of the packed weights
  // [step of 64 columns, row, 128 bytes]: turn_rows() in tall_cuda.cu; of groups that for each tile, of `count` rows
  const std::byte* x = nullptr;
  float* sums = nullptr;  // [split, sixteen, octet, lane, 4]
  TallGroups groups;
};
// Groups. Formats that tall_has(), and BF16.
bool tall_has_groups(Format format);
// Bytes that x takes, `rows` of all groups together.
int64_t tall_groups_scratch(int64_t rows, int64_t cols);
struct TallGroupsRun {
  StreamedPart part;  // of the first group
  int64_t cols = 0;
  int x_rows = 0;  // of a tile at most: 32, 64, 128 or 256
  TallGroups groups;
  View x;                      // bf16 or f32, in pairs of columns at even places
  bool padded = false;         // x is bf16, and zeros from `cols` to a multiple of 32
  int per_row = 1, apart = 0;  // place p has row p / per_row; group g's columns begin at g · apart
  int tail = 0;                // columns behind a group's own that are copied behind its outputs
};
// REQUIRES: `scratch` of tall_groups_scratch() bytes, 256-byte aligned.
void run_tall_groups(const TallGroupsRun& run, std::byte* scratch, const DeviceCtx& ctx);

// The kernel of a format.
template <class W>
void run_tall_format(const TallArgs& args, const DeviceCtx& ctx);

}  // namespace ingot::cuda
