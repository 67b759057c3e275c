// One to eight rows: weights stream past once, at the speed of the memory.
//
// A block per multiprocessor takes tiles in turn. Its eight warps share a tile's chunks, every eighth each; a warp has
// a ring of its own that its first lane feeds with bulk copies, and waits for nobody else before the tile's sums meet
// in shared memory, where they are added in the order of the warps. So the order over K depends on K alone. Weights are
// operand A of the matrix instruction, rows of x its eight columns.
//
// Between the last weight of this kernel and the first of the next the memory has nothing to do. So all that can be
// done before x is there is done before, and all that can be done before the last sum is done before that.
#include "base/check.h"
#include "matmul/cuda/stream_x.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 32 * kStreamWarps;
// x is read some chunks ahead: from the L2 cache it takes longer than one. Place u is for the chunks u,
// u + 4, … of a tile, so that no register that is still awaited is moved.
constexpr int kAhead = 4;

// R rows of a tile.
template <class W, int R>
struct StreamShape {
  static constexpr int kChunk = W::kBytes * (R / 16);
  // 64 to 72 KB in flight: the memory wants 30 KB for each multiprocessor, and the ring is filled while the kernel
  // before still runs.
  static constexpr int kStages = R == 16 ? 8 : R == 32 ? 4 : 3;
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
__device__ __forceinline__ void multiply_tile(Ring<W, R>& ring, uint4 (&x)[kAhead], Load&& load_x, float* sums,
                                              F&& meanwhile) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, mine = ring.mine;
  float acc[R / 16][4] = {};
  for (int i = 0; i < mine; i += kAhead) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (i + u >= mine) break;
      const std::byte* weights = ring.take();
#pragma unroll
      for (int m = 0; m < R / 16; ++m) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          uint32_t a[4];
          W::fragment(weights + m * W::kBytes, s, lane, a);
          const uint32_t b[2] = {s == 0 ? x[u].x : x[u].z, s == 0 ? x[u].y : x[u].w};
          multiply_bf16(acc[m], a, b);
        }
      }
      x[u] = load_x(i + u + kAhead < mine ? i + u + kAhead : u);
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
    float* to = at + m * 16;
    to[0] = acc[m][0];
    to[kSumRow] = acc[m][1];
    to[8] = acc[m][2];
    to[kSumRow + 8] = acc[m][3];
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
  const XRow<kShared> x_row(args, shared_x, lane);
  const auto load_x = [&](int i) { return x_row.load(warp + i * kStreamWarps); };
  uint4 x[kAhead];
#pragma unroll
  for (int u = 0; u < kAhead; ++u) x[u] = u < mine ? load_x(u) : make_uint4(0, 0, 0, 0);
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

template <int R, bool kShared>
void launch_stream(const StreamArgs& args, const DeviceCtx& ctx) {
  const int64_t x_bytes = kShared ? args.rows * shared_x_stride(args.chunks) * 2 : 0;
  launch(ctx, linear_stream<StreamBF16, R, kShared>,
         {dim3(ctx.multiprocessors), dim3(kThreads), std::max(kOneBlock, StreamShape<StreamBF16, R>::kFixed + x_bytes)},
         args);
}

template <int R>
void launch_rows(const StreamArgs& args, const DeviceCtx& ctx) {
  const bool shared = args.x.data == nullptr;
  return shared ? launch_stream<R, true>(args, ctx) : launch_stream<R, false>(args, ctx);
}

}  // namespace

bool stream_holds(int64_t rows, int64_t cols, int tile_rows) {
  const int64_t fixed = tile_rows == 16   ? StreamShape<StreamBF16, 16>::kFixed
                        : tile_rows == 32 ? StreamShape<StreamBF16, 32>::kFixed
                                          : StreamShape<StreamBF16, 48>::kFixed;
  // Attention's block must find room beside this one.
  return fixed + rows * shared_x_stride(stream_chunks(cols)) * 2 <= 120 << 10;
}

void run_stream(const StreamRun& run, const DeviceCtx& ctx) {
  const DeviceProduct& product = *run.product;
  CHECK(run.rows >= 1 && run.rows <= kStreamRows && product.streamed != nullptr, "{} rows", run.rows);
  const StreamArgs args = stream_args(run);
  switch (product.streamed->tile_rows) {
    case 16:
      return launch_rows<16>(args, ctx);
    case 32:
      return launch_rows<32>(args, ctx);
    case 48:
      return launch_rows<48>(args, ctx);
    default:
      CHECK(false, "tiles of {} rows", product.streamed->tile_rows);
  }
}

}  // namespace ingot::cuda
