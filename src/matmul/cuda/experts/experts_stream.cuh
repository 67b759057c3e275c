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

// The kernel of a format. Sets args.chunks.
template <class W>
void run_experts_format(ExpertStreamArgs& args, int64_t most_tiles, const DeviceCtx& ctx);

// The output, or the gate and up, that a thread makes of an item's sums: found while weights are on their way.
struct ExpertOutput {
  std::byte* to = nullptr;  // null: there is none
  int at = 0;               // in the sums of warp 0; of a pair the second is 8 further
  float bias = 0, second_bias = 0;

  __device__ ExpertOutput(const ExpertStreamArgs& args, int item) {
    const int each = args.is_glu ? kExpertTileRows / 2 : kExpertTileRows;
    const int thread = static_cast<int>(threadIdx.x), row = thread / each, i = thread - row * each;
    const int tile_at = item / args.slices, n = (item - tile_at * args.slices) * each + i;
    const ExpertTile tile = args.list.tiles[tile_at];
    if (row >= tile.count || n >= args.outputs) return;
    const int place = args.list.place[tile.first + row];
    to = place_in(args.out, place, n);
    at = row * (kExpertTileRows + 4) + (args.is_glu ? i / 8 * 16 + i % 8 : i);
    const int64_t of_bias = int64_t{tile.expert} * args.outputs + n;
    if (args.bias[0] != nullptr) bias = args.bias[0][of_bias];
    if (args.bias[1] != nullptr) second_bias = args.bias[1][of_bias];
  }
  // The sum over warps, in their order.
  template <int kSumRow>
  __device__ void write(const ExpertStreamArgs& args, const float* sums) const {
    if (to == nullptr) return;
    float value = 0, second = 0;
#pragma unroll
    for (int w = 0; w < kStreamWarps; ++w) value += sums[w * kStreamRows * kSumRow + at];
    value += bias;
    if (args.is_glu) {
#pragma unroll
      for (int w = 0; w < kStreamWarps; ++w) second += sums[w * kStreamRows * kSumRow + at + 8];
      value = gated_by(args.glu, value, second + second_bias);
    }
    store_value(to, 0, args.out.dtype, value);
  }
};

}  // namespace ingot::cuda
