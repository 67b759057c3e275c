// The streaming kernel: one to eight rows, weights stream past once, at the speed of the memory.
//
// A block per multiprocessor takes tiles in turn. Its eight warps share a tile's chunks, every eighth each; a warp has
// a ring of its own that its first lane feeds with bulk copies, and waits for nobody else before the tile's sums meet
// in shared memory, where they are added in the order of the warps. So the order over K depends on K alone. Weights are
// operand A of the matrix instruction, rows of x its eight columns.
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

constexpr int kThreads = 32 * kStreamWarps;
// x is read some chunks ahead: from the L2 cache it takes longer than one of 32 columns. Place u is for the chunks u,
// u + kAhead, … of a tile, so that no register that is still awaited is moved.
template <class W>
constexpr int kAhead = W::kUnits == 1 ? 4 : 2;

// R rows of a tile.
template <class W, int R>
struct StreamShape {
  static constexpr int kChunk = W::kBytes * (R / 16);
  // 64 to 72 KB in flight: the memory wants 30 KB for each multiprocessor, and the ring is filled while the kernel
  // before still runs. With 88 KB int4 and Q8_0 were 2 % slower at one row.
  static constexpr int kStages = W::kUnits == 1 ? (R == 16   ? 8
                                                   : R == 32 ? 4
                                                             : 3)
                                                : std::clamp((73 << 10) / (kStreamWarps * kChunk), 2, 8);
  static constexpr int kRing = kStreamWarps * kStages * kChunk;
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

// A warp's chunks on their way: warp, warp + 8, … of the block's tiles.
template <class W, int R>
struct Ring {
  using Shape = StreamShape<W, R>;
  std::byte* memory;
  CopyBarrier* barriers;
  const StreamArgs& args;
  int mine;  // chunks of a tile that are this warp's
  int64_t tile = blockIdx.x;
  const std::byte* from = nullptr;
  int left = 0;   // chunks of the tile that were not asked for
  int stage = 0;  // of the chunk that comes next
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
  // The chunk that comes next, when it is there.
  __device__ const std::byte* take() {
    barrier_wait(barriers + stage, parity);
    return memory + stage * Shape::kChunk;
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
    from = args.weights + (tile * args.chunks + warp) * Shape::kChunk;
    left = mine;
  }
  __device__ void fetch(int to) {
    if (left == 0) return;
    if (threadIdx.x % 32 == 0) {
      barrier_expect(barriers + to, Shape::kChunk);
      copy_bulk(memory + to * Shape::kChunk, from, Shape::kChunk, barriers + to);
    }
    from += kStreamWarps * Shape::kChunk;
    if (--left > 0) return;
    tile += gridDim.x;
    begin_tile();
  }
};

// This warp's share of a tile's products, to `sums`. meanwhile() is called once, when x and weights have come.
template <class W, int R, class Load, class F>
__device__ __forceinline__ void multiply_tile(Ring<W, R>& ring, uint4 (&x)[kAhead<W>][W::kUnits], Load&& load_x,
                                              float* sums, F&& meanwhile) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, mine = ring.mine;
  float acc[R / 16][1][4] = {};
  for (int i = 0; i < mine; i += kAhead<W>) {
#pragma unroll
    for (int u = 0; u < kAhead<W>; ++u) {
      if (i + u >= mine) break;
      const std::byte* chunk = ring.take();
      const std::byte* chunks[R / 16];
#pragma unroll
      for (int m = 0; m < R / 16; ++m) chunks[m] = chunk + m * W::kBytes;
      multiply_chunk<W, R / 16, 1>(
          chunks, [&](int unit, uint4(&to)[1]) { to[0] = x[u][unit]; }, lane, acc);
      load_x(i + u + kAhead<W> < mine ? i + u + kAhead<W> : u, x[u]);
      __syncwarp();
      ring.give_back();
    }
    if (i == 0) meanwhile();
  }
  if (mine == 0) meanwhile();
  constexpr int kSumRow = StreamShape<W, R>::kSumRow;
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
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    if (i >= kThreads) {
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
__global__ void __launch_bounds__(kThreads, 1) linear_stream(const __grid_constant__ StreamArgs args) {
  using Shape = StreamShape<W, R>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::byte* memory = shared_memory<std::byte>();
  float* sums = reinterpret_cast<float*>(memory + Shape::kRing + Shape::kBarriers);
  float* squares = sums + 2 * Shape::kSums;
  float* scale = squares + kStreamRows * kStreamWarps;
  uint16_t* shared_x = reinterpret_cast<uint16_t*>(memory + Shape::kFixed);

  let_next_begin();
  const int mine = warp < args.chunks ? (args.chunks - warp + kStreamWarps - 1) / kStreamWarps : 0;
  Ring<W, R> ring{memory + warp * Shape::kStages * Shape::kChunk,
                  reinterpret_cast<CopyBarrier*>(memory + Shape::kRing) + warp * Shape::kStages, args, mine};
  ring.begin();
  const int each = args.map.order == RowOrder::kPlain ? R : R / 2;
  const int first_i = static_cast<int>(threadIdx.x) % each, first_row = static_cast<int>(threadIdx.x) / each;
  const DType residual_type = args.outs[0].residual.dtype;
  StreamItem item;
  if (blockIdx.x < args.tiles) item = find_item<R>(args, blockIdx.x, first_i, first_row);

  wait_for_inputs();
  if constexpr (kShared) prepare_x(args, shared_x, squares, scale);
  const XRow<kShared, W::kBySixteens> x_row(args, shared_x, lane);
  const auto load_x = [&](int i, uint4(&to)[W::kUnits]) {
    const int first = (warp + i * kStreamWarps) * W::kUnits;
    if (W::kUnits == 1 || first + W::kUnits <= args.units) {
#pragma unroll
      for (int u = 0; u < W::kUnits; ++u) to[u] = x_row.load(first + u);
    } else {
      // The last chunk reaches beyond x.
#pragma unroll
      for (int u = 0; u < W::kUnits; ++u)
        to[u] = first + u < args.units ? x_row.load(first + u) : make_uint4(0, 0, 0, 0);
    }
  };
  uint4 x[kAhead<W>][W::kUnits] = {};
#pragma unroll
  for (int u = 0; u < kAhead<W>; ++u) {
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
}

template <class W, int R, bool kShared>
void launch_stream(const StreamArgs& args, const DeviceCtx& ctx) {
  const int64_t x_bytes = kShared ? args.rows * shared_x_stride(args.units) * 2 : 0;
  launch(ctx, linear_stream<W, R, kShared>,
         {dim3(ctx.multiprocessors), dim3(kThreads), std::max(kOneBlock, StreamShape<W, R>::kFixed + x_bytes)}, args);
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
  return tile_rows == 16   ? StreamShape<W, 16>::kFixed
         : tile_rows == 32 ? StreamShape<W, 32>::kFixed
                           : StreamShape<W, 48>::kFixed;
}

// In each file that makes kernels for some formats; the others get them from there.
#define INGOT_STREAM_KERNELS(NAME)                                                                   \
  template void run_stream_format<Stream##NAME>(const StreamArgs&, int tile_rows, const DeviceCtx&); \
  template int64_t stream_fixed_bytes<Stream##NAME>(int tile_rows);

}  // namespace ingot::cuda
