// The streaming kernel: one to eight rows, weights stream past once, at the speed of the memory.
//
// A block per multiprocessor takes tiles in turn. Its eight warps share a tile's chunks, every eighth or every eighth
// two each; a warp has a ring of its own that its first lane feeds with bulk copies, and waits for nobody else before
// the tile's sums meet in shared memory, where they are added in the order of the warps. So the order over K depends on
// K alone. Weights are operand A of the matrix instruction, rows of x its eight columns.
//
// Between the last weight of this kernel and the first of the next the memory has nothing to do. So all that can be
// done before x is there is done before, and all that can be done before the last sum is done before that.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/stream/stream_x.cuh"

namespace ingot::cuda {
namespace {

constexpr int kStreamThreads = 32 * kStreamWarps;
// Chunks that a warp waits for, multiplies and asks for at a time: of two the instructions of one fill what those of
// the other wait for, and the ring takes half as many. int4 takes 45.2 us for four linears of an 8B model so, 48.8 one
// by one. Two of 48 rows would leave attention's block no room.
template <class W, int R>
constexpr int kStageChunks = W::kUnits > 1 && R < 48 ? 2 : 1;
template <class W, int R>
constexpr int kStageUnits = kStageChunks<W, R>* W::kUnits;
// x is read some stages ahead: from the L2 cache it takes longer than one of 32 columns. Place u is for the stages u,
// u + kAhead, … of a tile, so that no register that is still awaited is moved.
template <class W, int R = 48>
constexpr int kAhead = W::kUnits == 1 ? 4 : 2 / kStageChunks<W, R>;

// R rows of a tile, P chunks of a stage.
template <class W, int R, int P = 1>
struct StreamShape {
  static constexpr int kChunk = W::kBytes * (R / 16);
  static constexpr int kStage = kChunk * P;
  // 64 to 72 KB in flight: the memory wants 30 KB for each multiprocessor, and the ring is filled while the kernel
  // before still runs. With 88 KB int4 and Q8_0 were 2 % slower at one row.
  static constexpr int kStages = W::kUnits == 1 ? (R == 16   ? 8
                                                   : R == 32 ? 4
                                                             : 3)
                                                : std::clamp((73 << 10) / (kStreamWarps * kStage), 2, 8);
  static constexpr int kRing = kStreamWarps * kStages * kStage;
  static constexpr int kBarriers = kStreamWarps * kStages * static_cast<int>(sizeof(CopyBarrier));
  // Sums are [warp][row of x][row of the tile + 4]: lanes write 32 banks. Two of them, so that a tile takes one
  // barrier.
  static constexpr int kSumRow = R + 4;
  static constexpr int kSums = kStreamWarps * kStreamRows * kSumRow;
  static constexpr int kNorm = kStreamRows * (kStreamWarps + 1) * 4;
  static constexpr int kFixed = kRing + kBarriers + 2 * kSums * 4 + kNorm;
};

// More shared memory than half of a multiprocessor's, so that no two blocks of this kernel share one. A kernel whose
// grid does not fill the device (attention) leaves room for two on some multiprocessors: there they would take twice as
// long, others have none, and the next kernels inherit the places. A layer of an 8B model at one row: 139 us of an H200
// with room for two, 117 so; attention's block (103 KB) still fits beside this one.
constexpr int64_t kOneBlock = 116 << 10;

template <class W, int R>
using LinearShape = StreamShape<W, R, kStageChunks<W, R>>;

// A warp's stages on their way: warp, warp + 8, … of the block's tiles.
template <class W, int R>
struct Ring {
  using Shape = LinearShape<W, R>;
  std::byte* memory;
  CopyBarrier* barriers;
  const StreamArgs& args;
  int mine;         // stages of a tile that are this warp's
  bool short_last;  // the last of them is one chunk of two
  int64_t tile = blockIdx.x;
  const std::byte* from = nullptr;
  int left = 0;   // stages of the tile that were not asked for
  int stage = 0;  // of the ring, that comes next
  uint32_t parity = 0;

  __device__ void begin() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) {
      for (int i = 0; i < Shape::kStages; ++i) barrier_init(barriers + i, 1);
      barrier_inits_done();
    }
    __syncwarp();
    begin_tile();
#pragma unroll
    for (int i = 0; i < Shape::kStages; ++i) fetch(i);
  }
  // The stage that comes next, when it is there.
  __device__ const std::byte* take() {
    barrier_wait(barriers + stage, parity);
    return memory + stage * Shape::kStage;
  }
  // All lanes have read it.
  __device__ void give_back() {
    fetch(stage);
    if (++stage == Shape::kStages) stage = 0, parity ^= 1;
  }

 private:
  __device__ void begin_tile() {
    if (tile >= args.tiles) return;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    from = args.weights + (tile * args.chunks + warp * kStageChunks<W, R>)*Shape::kChunk;
    left = mine;
  }
  __device__ void fetch(int to) {
    if (left == 0) return;
    if (threadIdx.x % 32 == 0) {
      const uint32_t bytes = left == 1 && short_last ? Shape::kChunk : Shape::kStage;
      barrier_expect(barriers + to, bytes);
      copy_bulk(memory + to * Shape::kStage, from, bytes, barriers + to);
    }
    from += kStreamWarps * Shape::kStage;
    if (--left > 0) return;
    tile += gridDim.x;
    begin_tile();
  }
};

// This warp's share of a tile's products, to `sums`. meanwhile() is called once, when x and weights have come.
template <class W, int R, class Load, class F>
__device__ __forceinline__ void multiply_tile(Ring<W, R>& ring, uint4 (&x)[kAhead<W, R>][kStageUnits<W, R>],
                                              Load&& load_x, float* sums, F&& meanwhile) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, mine = ring.mine;
  float acc[R / 16][1][4] = {};
  for (int i = 0; i < mine; i += kAhead<W, R>) {
#pragma unroll
    for (int u = 0; u < kAhead<W, R>; ++u) {
      if (i + u >= mine) break;
      const std::byte* stage = ring.take();
      const auto one = [&](int p) {
        const std::byte* chunks[R / 16];
#pragma unroll
        for (int m = 0; m < R / 16; ++m) chunks[m] = stage + p * LinearShape<W, R>::kChunk + m * W::kBytes;
        multiply_chunk<W, R / 16, 1>(
            chunks, [&](int unit, uint4(&to)[1]) { to[0] = x[u][p * W::kUnits + unit]; }, lane, acc);
      };
      if (ring.short_last && i + u == mine - 1) {
        one(0);
      } else {
#pragma unroll
        for (int p = 0; p < kStageChunks<W, R>; ++p) one(p);
      }
      load_x(i + u + kAhead<W, R> < mine ? i + u + kAhead<W, R> : u, x[u]);
      __syncwarp();
      ring.give_back();
    }
    if (i == 0) meanwhile();
  }
  if (mine == 0) meanwhile();
  constexpr int kSumRow = LinearShape<W, R>::kSumRow;
  float* at = sums + (warp * kStreamRows + lane % 4 * 2) * kSumRow + lane / 4;
#pragma unroll
  for (int m = 0; m < R / 16; ++m) {
    constexpr float kPower = power_of_two(W::kSumPower), kOddPower = power_of_two(W::kSumPower - W::kOdd);
    float* to = at + m * 16;
    to[0] = acc[m][0][0] * kPower;
    to[kSumRow] = acc[m][0][1] * kPower;
    to[8] = acc[m][0][2] * kOddPower;
    to[kSumRow + 8] = acc[m][0][3] * kOddPower;
  }
}

// The tile's values, summed over warps, to where they belong. `item` is the thread's first; most tiles have no more.
template <int R>
__device__ __forceinline__ void finish_tile(const StreamArgs& args, int64_t tile, const float* sums, const float* scale,
                                            StreamItem item) {
  constexpr int kSumRow = R + 4;
  const auto value = [&](int row, int at) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kStreamWarps; ++w) sum += sums[(w * kStreamRows + row) * kSumRow + at];
    return scale != nullptr ? sum * scale[row] : sum;
  };
  const bool is_plain = args.map.order == RowOrder::kPlain;
  // Whole warps: where norms are made on the way, neighbours add up.
  const int each = is_plain ? R : R / 2, count = (each * args.rows + 31) / 32 * 32;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kStreamThreads) {
    if (i >= kStreamThreads) {
      item = find_item<R>(args, tile, i % each, i / each);
      item.read(args.outs[0].residual.dtype);
    }
    if (is_plain) {
      finish_plain(args, item, value(item.row, item.at));
    } else {
      finish_pair(args, item, value(item.row, item.at), value(item.row, item.at + 8));
    }
  }
}

// kShared: x is made in shared memory by every block.
template <class W, int R, bool kShared>
__global__ void __launch_bounds__(kStreamThreads, 1) linear_stream(const __grid_constant__ StreamArgs args) {
  using Shape = LinearShape<W, R>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::byte* memory = shared_memory<std::byte>();
  float* sums = reinterpret_cast<float*>(memory + Shape::kRing + Shape::kBarriers);
  float* squares = sums + 2 * Shape::kSums;
  float* scale = squares + kStreamRows * kStreamWarps;
  uint16_t* shared_x = reinterpret_cast<uint16_t*>(memory + Shape::kFixed);

  begin_launch(args);
  const int steps = (args.chunks + kStageChunks<W, R> - 1) / kStageChunks<W, R>;
  const int mine = warp < steps ? (steps - warp + kStreamWarps - 1) / kStreamWarps : 0;
  Ring<W, R> ring{memory + warp * Shape::kStages * Shape::kStage,
                  reinterpret_cast<CopyBarrier*>(memory + Shape::kRing) + warp * Shape::kStages, args, mine,
                  args.chunks % kStageChunks<W, R> != 0 && (steps - 1) % kStreamWarps == warp};
  ring.begin();
  const int each = args.map.order == RowOrder::kPlain ? R : R / 2;
  const int first_i = static_cast<int>(threadIdx.x) % each, first_row = static_cast<int>(threadIdx.x) / each;
  const DType residual_type = args.outs[0].residual.dtype;
  StreamItem item;
  if (blockIdx.x < args.tiles) item = find_item<R>(args, blockIdx.x, first_i, first_row);

  await_inputs(args);
  if constexpr (kShared) prepare_x(args, shared_x, squares, scale);
  const XRow<kShared, W::kBySixteens> x_row(args, shared_x, lane);
  const auto load_x = [&](int i, uint4(&to)[kStageUnits<W, R>]) {
    const int first = (warp + i * kStreamWarps) * kStageUnits<W, R>;
    if (W::kUnits == 1 || first + kStageUnits<W, R> <= args.units) {
#pragma unroll
      for (int u = 0; u < kStageUnits<W, R>; ++u) to[u] = x_row.load(first + u);
    } else {
      // The last chunk reaches beyond x.
#pragma unroll
      for (int u = 0; u < kStageUnits<W, R>; ++u)
        to[u] = first + u < args.units ? x_row.load(first + u) : make_uint4(0, 0, 0, 0);
    }
  };
  uint4 x[kAhead<W, R>][kStageUnits<W, R>] = {};
#pragma unroll
  for (int u = 0; u < kAhead<W, R>; ++u) {
    if (u < mine) load_x(u, x[u]);
  }
  Squares of_rows;
  if constexpr (!kShared) of_rows.ask(args);
  item.read(residual_type);

  const float* scales = kShared || args.from.weight != nullptr ? scale : nullptr;
  int buffer = 0;
  for (int64_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
    float* room = sums + buffer * Shape::kSums;
    buffer ^= 1;
    multiply_tile<W, R>(ring, x, load_x, room, [&] {
      if (tile == blockIdx.x) {
        if constexpr (!kShared) of_rows.make_scale(args, scale);
        return;
      }
      item = find_item<R>(args, tile, first_i, first_row);
      item.read(residual_type);
    });
    __syncthreads();
    finish_tile<R>(args, tile, room, scales, item);
  }
  end_launch(args);
}

template <class W, int R, bool kShared>
void launch_stream(const StreamArgs& args, const DeviceCtx& ctx) {
  const int64_t x_bytes = kShared ? args.rows * shared_x_stride(args.units) * 2 : 0;
  launch(ctx, linear_stream<W, R, kShared>,
         {dim3(ctx.multiprocessors), dim3(kStreamThreads), std::max(kOneBlock, LinearShape<W, R>::kFixed + x_bytes)},
         args);
}

}  // namespace

template <class W>
void run_stream_format(const StreamArgs& args, int tile_rows, const DeviceCtx& ctx) {
  const auto launch_rows = [&]<int R>() {
    const bool shared = args.x.data == nullptr;
    return shared ? launch_stream<W, R, true>(args, ctx) : launch_stream<W, R, false>(args, ctx);
  };
  if (tile_rows == 16) return launch_rows.template operator()<16>();
  if (tile_rows == 32) return launch_rows.template operator()<32>();
  if constexpr (W::kMostRows >= 48) {
    if (tile_rows == 48) return launch_rows.template operator()<48>();
  }
  CHECK(false, "tiles of {} rows", tile_rows);
}

template <class W>
int64_t stream_fixed_bytes(int tile_rows) {
  return tile_rows == 16   ? LinearShape<W, 16>::kFixed
         : tile_rows == 32 ? LinearShape<W, 32>::kFixed
                           : LinearShape<W, 48>::kFixed;
}

// In each file that makes kernels for some formats; the others get them from there.
#define INGOT_STREAM_KERNELS(NAME)                                                                   \
  template void run_stream_format<Stream##NAME>(const StreamArgs&, int tile_rows, const DeviceCtx&); \
  template int64_t stream_fixed_bytes<Stream##NAME>(int tile_rows);

}  // namespace ingot::cuda
