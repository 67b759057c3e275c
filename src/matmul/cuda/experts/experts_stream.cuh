// What the streaming kernel of experts is given, and where a value goes.
#pragma once

#include "matmul/cuda/experts/experts.cuh"
#include "matmul/cuda/stream/stream_x.cuh"

namespace ingot::cuda {

struct ExpertStreamArgs {
  const std::byte* weights = nullptr;
  int64_t stride = 0;  // bytes of an expert's
  int slices = 0;      // packed tiles of an expert
  int chunks = 0;      // of a packed tile, as the weights' format has them
  int groups = 1;      // of warps, each with a packed tile of its own; a power of two
  int steps = 0;       // items of an expert's tile of places: of `groups` packed tiles each
  int units = 0;       // of x: 32 columns each
  ExpertList list;
  bool list_is_there = false;  // made two kernels ago or earlier: it may be read before the one before has ended
  View x;
  int per_row = 1;
  View out;
  int outputs = 0;  // N
  const float* bias[2] = {};
  bool is_glu = false;
  ActivationKind glu = ActivationKind::kNone;
};

// A warp shall have three chunks of an item, or the end of an item takes longer than its weights: with 8 warps for each
// packed tile two of them had nothing to do of the six chunks that 768 columns of 4 bits are. By the columns alone: the
// order of sums depends on it.
constexpr int expert_groups(int chunks) { return chunks >= 24 ? 1 : chunks >= 12 ? 2 : 4; }

// The kernel of a format. Sets args.chunks, groups and steps.
template <class W>
void run_experts_format(ExpertStreamArgs& args, int64_t most_tiles, const DeviceCtx& ctx);

// The output, or the gate and up, that a thread makes of an item's sums: found while weights are on their way.
struct ExpertOutput {
  std::byte* to = nullptr;  // null: there is none
  int at = 0;               // in the sums; of a pair the second is 8 further
  float bias = 0, second_bias = 0;

  // Output i of the item's: [group][place][row of the packed tile, or pair].
  __device__ void find(const ExpertStreamArgs& args, int item, int i) {
    constexpr int kSumRow = kExpertTileRows + 4;
    const int each = args.is_glu ? kExpertTileRows / 2 : kExpertTileRows;
    const int group = i / (each * kStreamRows), row = i / each % kStreamRows, of_row = i % each;
    const int tile_at = item / args.steps;
    const int slice = (item - tile_at * args.steps) * args.groups + group, n = slice * each + of_row;
    to = nullptr;
    const ExpertTile tile = args.list.tiles[tile_at];
    if (row >= tile.count || n >= args.outputs || group >= args.groups) return;
    const int place = args.list.place[tile.first + row];
    to = place_in(args.out, place, n);
    at = (group * (kStreamWarps / args.groups) * kStreamRows + row) * kSumRow +
         (args.is_glu ? of_row / 8 * 16 + of_row % 8 : of_row);
    const int64_t of_bias = int64_t{tile.expert} * args.outputs + n;
    if (args.bias[0] != nullptr) bias = args.bias[0][of_bias];
    if (args.bias[1] != nullptr) second_bias = args.bias[1][of_bias];
  }
  // The sum over the group's warps, in their order.
  __device__ void write(const ExpertStreamArgs& args, const float* sums) const {
    constexpr int kWarp = kStreamRows * (kExpertTileRows + 4);
    if (to == nullptr) return;
    const int warps = kStreamWarps / args.groups;
    float value = 0, second = 0;
#pragma unroll
    for (int w = 0; w < kStreamWarps; ++w)
      if (w < warps) value += sums[w * kWarp + at];
    value += bias;
    if (args.is_glu) {
#pragma unroll
      for (int w = 0; w < kStreamWarps; ++w)
        if (w < warps) second += sums[w * kWarp + at + 8];
      value = gated_by(args.glu, value, second + second_bias);
    }
    store_value(to, 0, args.out.dtype, value);
  }
};

}  // namespace ingot::cuda
