// One to eight rows: weights stream past once, at the speed of the memory.
//
// A block per multiprocessor takes tiles in turn. Its eight warps share a tile's chunks, every eighth each; a warp has
// a ring of its own that its first lane feeds with bulk copies, and waits for nobody else before the tile's sums meet
// in shared memory, where they are added in the order of the warps. So the order over K depends on K alone. Weights are
// operand A of the matrix instruction, rows of x its eight columns.
#include "base/check.h"
#include "ops/linear/linear_stream.cuh"

namespace ingot::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;

// R rows of a tile, NT · 8 rows of x.
template <class W, int R, int NT>
struct StreamShape {
  static constexpr int kChunk = W::kBytes * (R / 16);
  // 64 to 72 KB under way: the memory wants 30 KB for each multiprocessor, and the ring is filled while the kernel
  // before still runs.
  static constexpr int kStages = R == 16 ? 8 : R == 32 ? 4 : 3;
  static constexpr int kRing = kWarps * kStages * kChunk;
  static constexpr int kBarriers = kWarps * kStages * static_cast<int>(sizeof(CopyBarrier));
  // Sums are [warp][row of x][row of the tile + 4]: lanes write 32 banks. Two of them where that is small, so that a
  // tile takes one barrier.
  static constexpr int kSumRow = R + 4;
  static constexpr int kSums = kWarps * NT * 8 * kSumRow;
  static constexpr int kSumBuffers = NT == 1 && R < 48 ? 2 : 1;
  static constexpr int kNorm = kStreamRows * (kWarps + 1) * 4;
  static constexpr int kFixed = kRing + kBarriers + kSumBuffers * kSums * 4 + kNorm;
};

// More shared memory than half of a multiprocessor's, so that no two blocks of this kernel share one. A kernel whose
// grid does not fill the device (attention) leaves room for two on some multiprocessors: there they would take twice as
// long, others have none, and the next kernels inherit the places. A layer of an 8B model at one row: 139 us of an H200
// with room for two, 117 so; attention's block (103 KB) still fits beside this one.
constexpr int64_t kOneBlock = 116 << 10;

// x in shared memory: 32 bytes between rows, so that the eight rows of a load lie in different banks.
__host__ __device__ constexpr int64_t shared_x_stride(int64_t chunks) { return chunks * kStreamCols + 16; }

// What a warp asks for next: the chunks warp, warp + 8, … of the block's tiles.
struct Feed {
  int64_t tile;
  int chunk;
  __device__ void advance(const StreamArgs& args, int warp) {
    chunk += kWarps;
    if (chunk < args.chunks) return;
    chunk = warp;
    tile += gridDim.x;
  }
};

// x (normed where there is a weight, but for the division by its root: that is done to the sums) as bf16 to shared
// memory, by `share` warps for each row. Leaves the sums of squares of each warp's part in `squares`.
__device__ void stage_x(const StreamArgs& args, uint16_t* to, float* squares, int share) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t stride = shared_x_stride(args.chunks);
  const InputArgs& in = args.input;
  for (int row = warp / share; row < args.rows; row += kWarps / share) {
    float sum = 0;
    const std::byte* from = in.x.row(row);
    uint16_t* out = to + row * stride;
#pragma unroll 8
    for (int i = (warp % share * 32 + lane) * 2; i < args.chunks * kStreamCols; i += share * 64) {
      float a = i < in.x.cols ? load_value(from, i, in.x.dtype) : 0.0f;
      float b = i + 1 < in.x.cols ? load_value(from, i + 1, in.x.dtype) : 0.0f;
      if (in.weight != nullptr) {
        sum += a * a;
        sum += b * b;
        if (i < in.x.cols) a *= in.weight[i];
        if (i + 1 < in.x.cols) b *= in.weight[i + 1];
      }
      *reinterpret_cast<uint32_t*>(out + i) = pack_bf16(a, b);
    }
    sum = warp_sum(sum);
    if (lane == 0) squares[row * kWarps + warp % share] = sum;
  }
}

// The same for rows of f32 whose ends are aligned: 16 bytes at a time.
__device__ void stage_x_aligned(const StreamArgs& args, uint16_t* to, float* squares, int share) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t stride = shared_x_stride(args.chunks);
  const InputArgs& in = args.input;
  for (int row = warp / share; row < args.rows; row += kWarps / share) {
    float sum = 0;
    const float* from = reinterpret_cast<const float*>(in.x.row(row));
    uint16_t* out = to + row * stride;
#pragma unroll 4
    for (int i = (warp % share * 32 + lane) * 4; i < args.chunks * kStreamCols; i += share * 128) {
      float4 v = *reinterpret_cast<const float4*>(from + i);
      if (in.weight != nullptr) {
        const float4 w = *reinterpret_cast<const float4*>(in.weight + i);
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        v.x *= w.x, v.y *= w.y, v.z *= w.z, v.w *= w.w;
      }
      *reinterpret_cast<uint2*>(out + i) = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
    }
    sum = warp_sum(sum);
    if (lane == 0) squares[row * kWarps + warp % share] = sum;
  }
}

// x and scale[row] into shared memory.
__device__ void prepare_x(const StreamArgs& args, uint16_t* x, float* squares, float* scale) {
  int share = kWarps;
  while (share > 1 && args.rows * share > kWarps) share /= 2;
  const InputArgs& in = args.input;
  const bool aligned = in.x.dtype == DType::kF32 && in.x.cols == args.chunks * kStreamCols && in.x.stride % 4 == 0 &&
                       (reinterpret_cast<uintptr_t>(in.x.data) | reinterpret_cast<uintptr_t>(in.weight)) % 16 == 0;
  if (aligned) {
    stage_x_aligned(args, x, squares, share);
  } else {
    stage_x(args, x, squares, share);
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x);
  if (row < args.rows) {
    float sum = 0;
    for (int i = 0; i < share; ++i) sum += squares[row * kWarps + i];
    scale[row] = in.weight != nullptr ? 1.0f / sqrtf(sum / static_cast<float>(in.x.cols) + in.eps) : 1.0f;
  }
}

// scale[row] of rows that the linear before left behind, a warp for each row.
__device__ void find_scales(const StreamArgs& args, float* scale) {
  const int row = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= args.rows) return;
  const float* squares = args.from.squares + int64_t{row} * args.from.parts;
  float sum = 0;
#pragma unroll 4
  for (int i = lane; i < args.from.parts; i += 32) sum += squares[i];
  sum = warp_sum(sum);
  if (lane == 0) scale[row] = 1.0f / sqrtf(sum / static_cast<float>(args.from.x.cols) + args.from.eps);
}

// The tile's values, summed over warps, to where they belong. `early` is of the thread's first.
template <class Shape, int R, int NT>
__device__ void finish_tile(const StreamArgs& args, int64_t tile, const float* sums, const float* scale,
                            const Early& early) {
  const auto value = [&](int row, int p) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += sums[(w * NT * 8 + row) * Shape::kSumRow + p];
    return scale != nullptr ? sum * scale[row] : sum;
  };
  const int first = static_cast<int>(threadIdx.x);
  const bool is_plain = args.map.order == RowOrder::kPlain, leaves = args.to.weight != nullptr;
  const int each = is_plain ? R : R / 2, count = each * args.rows;
  // Whole warps where neighbours add up what they leave.
  for (int i = first; i < (leaves ? (count + 31) / 32 * 32 : count); i += kThreads) {
    const int row = i / each;
    Early read = early;
    if (i != first && i < count) read = read_early<R>(args, tile, i % each, row);
    if (is_plain) {
      const PartRow at = packed_row(args.map, R, tile, i % each);
      const bool valid = i < count && at.part >= 0;
      float stored = 0;
      if (valid) stored = store_plain(args, at, row, value(row, i % each), read);
      if (leaves) leave_for_next(args, at.row, row, stored, read.b, valid);
    } else {
      const int p = i % each / 8 * 16 + i % 8;
      store_pair(args, tile * (R / 2) + i % each, row, value(row, p), value(row, p + 8), read);
    }
  }
}

// Rows g and g + 8 … of x at the chunk, eight columns for this lane.
template <int NT, bool kShared>
__device__ void load_x(const StreamArgs& args, const uint16_t* shared, int chunk, int lane, uint4 (&x)[NT]) {
#pragma unroll
  for (int i = 0; i < NT; ++i) {
    const int row = i * 8 + lane / 4, col = chunk * kStreamCols + lane % 4 * 8;
    x[i] = make_uint4(0, 0, 0, 0);
    if (row >= args.rows) continue;
    if constexpr (kShared) {
      x[i] = *reinterpret_cast<const uint4*>(shared + row * shared_x_stride(args.chunks) + col);
    } else {
      x[i] = *reinterpret_cast<const uint4*>(args.x.row(row) + int64_t{col} * 2);
    }
  }
}

template <class W, int R, int NT, bool kShared>
__global__ void __launch_bounds__(kThreads, 2) linear_stream(const StreamArgs args) {
  using Shape = StreamShape<W, R, NT>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::byte* memory = shared_memory<std::byte>();
  std::byte* ring = memory + warp * Shape::kStages * Shape::kChunk;
  CopyBarrier* barriers = reinterpret_cast<CopyBarrier*>(memory + Shape::kRing) + warp * Shape::kStages;
  float* sums = reinterpret_cast<float*>(memory + Shape::kRing + Shape::kBarriers);
  float* squares = sums + Shape::kSumBuffers * Shape::kSums;
  float* scale = squares + kStreamRows * kWarps;
  uint16_t* shared_x = reinterpret_cast<uint16_t*>(memory + Shape::kFixed);

  let_next_begin();
  if (lane == 0) {
    for (int i = 0; i < Shape::kStages; ++i) barrier_init(barriers + i, 1);
    barrier_inits_done();
  }
  __syncwarp();
  Feed feed{warp < args.chunks ? static_cast<int64_t>(blockIdx.x) : args.tiles, warp};
  const auto fetch = [&](int stage) {
    if (feed.tile >= args.tiles) return;
    if (lane == 0) {
      barrier_expect(barriers + stage, Shape::kChunk);
      copy_bulk(ring + stage * Shape::kChunk, args.weights + (feed.tile * args.chunks + feed.chunk) * Shape::kChunk,
                Shape::kChunk, barriers + stage);
    }
    feed.advance(args, warp);
  };
#pragma unroll
  for (int i = 0; i < Shape::kStages; ++i) fetch(i);
  wait_for_inputs();
  if constexpr (kShared) {
    prepare_x(args, shared_x, squares, scale);
  } else if (args.from.weight != nullptr) {
    find_scales(args, scale);
  }

  // x is read two chunks ahead: what comes from the second-level cache takes as long as a chunk.
  constexpr int kAhead = 2;
  uint4 next[kAhead][NT];
  int x_chunk = warp;
  const auto load_next = [&](uint4(&x)[NT]) {
    if (x_chunk < args.chunks) load_x<NT, kShared>(args, shared_x, x_chunk, lane, x);
    x_chunk += kWarps;
    if (x_chunk >= args.chunks) x_chunk = warp;
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load_next(next[i]);

  int stage = 0;
  uint32_t parity = 0;
  int buffer = 0;
  for (int64_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
    float acc[R / 16][NT][4] = {};
    // Asked for here, because it takes as long as the last chunks.
    const int each = args.map.order == RowOrder::kPlain ? R : R / 2, mine_first = static_cast<int>(threadIdx.x);
    Early early;
    if (mine_first < each * args.rows) early = read_early<R>(args, tile, mine_first % each, mine_first / each);
    for (int chunk = warp; chunk < args.chunks; chunk += kWarps) {
      uint4 x[NT];
#pragma unroll
      for (int i = 0; i < NT; ++i) x[i] = next[0][i], next[0][i] = next[1][i];
      load_next(next[1]);
      barrier_wait(barriers + stage, parity);
      const std::byte* weights = ring + stage * Shape::kChunk;
#pragma unroll
      for (int m = 0; m < R / 16; ++m) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          uint32_t a[4];
          W::fragment(weights + m * W::kBytes, s, lane, a);
#pragma unroll
          for (int i = 0; i < NT; ++i) {
            const uint32_t b[2] = {s == 0 ? x[i].x : x[i].z, s == 0 ? x[i].y : x[i].w};
            multiply_bf16(acc[m][i], a, b);
          }
        }
      }
      __syncwarp();
      fetch(stage);
      if (++stage == Shape::kStages) stage = 0, parity ^= 1;
    }
    float* room = sums + buffer * Shape::kSums;
    float* mine = room + (warp * NT * 8 + lane % 4 * 2) * Shape::kSumRow + lane / 4;
#pragma unroll
    for (int m = 0; m < R / 16; ++m) {
#pragma unroll
      for (int i = 0; i < NT; ++i) {
        float* to = mine + i * 8 * Shape::kSumRow + m * 16;
        to[0] = acc[m][i][0];
        to[Shape::kSumRow] = acc[m][i][1];
        to[8] = acc[m][i][2];
        to[Shape::kSumRow + 8] = acc[m][i][3];
      }
    }
    __syncthreads();
    finish_tile<Shape, R, NT>(args, tile, room, kShared || args.from.weight != nullptr ? scale : nullptr, early);
    if constexpr (Shape::kSumBuffers == 2) {
      buffer ^= 1;
    } else {
      __syncthreads();
    }
  }
}

template <int R, int NT, bool kShared>
void launch_stream(const StreamArgs& args, const Ctx& ctx) {
  using Shape = StreamShape<StreamBF16, R, NT>;
  const int64_t x_bytes = kShared ? args.rows * shared_x_stride(args.chunks) * 2 : 0;
  launch(ctx, linear_stream<StreamBF16, R, NT, kShared>,
         {dim3(ctx.multiprocessors), dim3(kThreads), std::max(kOneBlock, Shape::kFixed + x_bytes)}, args);
}

template <int R>
void launch_rows(const StreamArgs& args, const Ctx& ctx) {
  const bool shared = args.x.data == nullptr;
  return shared ? launch_stream<R, 1, true>(args, ctx) : launch_stream<R, 1, false>(args, ctx);
}

}  // namespace

bool stream_holds(int64_t rows, int64_t cols, int tile_rows) {
  constexpr int kNT = kStreamRows / 8;
  const int64_t fixed = tile_rows == 16   ? StreamShape<StreamBF16, 16, kNT>::kFixed
                        : tile_rows == 32 ? StreamShape<StreamBF16, 32, kNT>::kFixed
                                          : StreamShape<StreamBF16, 48, kNT>::kFixed;
  // Attention's block must find room beside this one.
  return fixed + rows * shared_x_stride(stream_chunks(cols)) * 2 <= 120 << 10;
}

void run_stream(const StreamRun& run, const Ctx& ctx) {
  const Linear& op = *run.op;
  CHECK(run.rows >= 1 && run.rows <= kStreamRows && op.streamed != nullptr, "{} rows", run.rows);
  const StreamArgs args = stream_args(run, ctx);
  switch (op.streamed->tile_rows) {
    case 16:
      return launch_rows<16>(args, ctx);
    case 32:
      return launch_rows<32>(args, ctx);
    case 48:
      return launch_rows<48>(args, ctx);
    default:
      CHECK(false, "tiles of {} rows", op.streamed->tile_rows);
  }
}

}  // namespace ingot::cuda
