// Nine to 64 rows of bf16: weights stream past once, x is shared by the warps of a block.
//
// A block takes 128 (or 144) outputs at a time, 16 for each of its warps, and one warp more feeds a ring: bulk copies
// of 64 columns of weights, as linear_packing.h lays them out, and of 256 columns of x: a copy of 128 bytes takes the
// copy engine as long as one of 512, 37 ns. All tiles' steps over K form one row of work that is cut evenly among the
// blocks, wherever the cuts fall: so every multiprocessor has the same to do, whatever the shape. Of a tile that is
// cut, each block leaves its sums in scratch, and the warp that comes last adds them in the order of the blocks: the
// same for every launch.
#include "base/check.h"
#include "ops/linear/linear_stream.cuh"

namespace ingot::cuda {
namespace {

constexpr int kStepCols = 2 * kStreamCols;
constexpr int kXSteps = 4;  // of a stage of x
constexpr int kXStages = 2;
// Rows of x in a stage: 512 bytes, 576 apart, so that the two rows of eight lanes' loads lie in different banks.
constexpr int kXRow = kXSteps * kStepCols * 2 + 64;
constexpr int kWarps = 9;  // of outputs, at most

// R rows of a packed tile, NT · 8 rows of x.
template <int R, int NT>
struct WideShape {
  static constexpr int kTiles = R == 48 ? 3 : 128 / R;  // packed tiles of a block's tile
  static constexpr int kConsumers = R * kTiles / 16;
  static constexpr int kThreads = 32 * (kConsumers + 1);
  static constexpr int kChunk = R * kStreamCols * 2;
  static constexpr int kWeights = 2 * kChunk * kTiles;
  static constexpr int kStages = 6;
  static constexpr int kXStage = NT * 8 * kXRow;
  static constexpr int kX = kStages * kWeights;  // where x begins
  static constexpr int kBarriers = kX + kXStages * kXStage;
  static constexpr int kShared = kBarriers + 2 * (kStages + kXStages) * static_cast<int>(sizeof(CopyBarrier));
};

struct WideArgs {
  StreamArgs stream;
  int64_t tiles = 0;  // of kTiles packed ones
  int steps = 0;      // of a tile
  float4* partial = nullptr;
  uint32_t* tickets = nullptr;
};

// The cuts: block b has the steps [begin(b), begin(b + 1)) of all.
struct Cuts {
  int64_t total, blocks;
  __device__ int64_t begin(int64_t b) const { return b * total / blocks; }
  __device__ int64_t block_of(int64_t step) const { return ((step + 1) * blocks - 1) / total; }
};

__device__ inline Cuts cuts_of(const WideArgs& args) {
  return {args.tiles * args.steps, static_cast<int64_t>(gridDim.x)};
}

// The barriers of a block: of the stages of weights and of x, full and empty.
template <class Shape>
struct WideBarriers {
  CopyBarrier* full;
  __device__ explicit WideBarriers(std::byte* memory)
      : full(reinterpret_cast<CopyBarrier*>(memory + Shape::kBarriers)) {}
  __device__ CopyBarrier* empty() const { return full + Shape::kStages; }
  __device__ CopyBarrier* x_full() const { return full + 2 * Shape::kStages; }
  __device__ CopyBarrier* x_empty() const { return full + 2 * Shape::kStages + kXStages; }
};

// The warp that feeds the rings.
template <class Shape, int NT>
__device__ void feed_rings(const WideArgs& args, std::byte* memory, const WideBarriers<Shape>& barriers, int64_t begin,
                           int64_t end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const StreamArgs& in = args.stream;
  const auto feed_weights = [&](int64_t u, int stage) {
    const int64_t first = u / args.steps * Shape::kTiles;
    const int step = static_cast<int>(u % args.steps);
    const int tiles = static_cast<int>(min(int64_t{Shape::kTiles}, in.tiles - first));
    const int bytes = min(2, in.chunks - 2 * step) * Shape::kChunk;
    if (lane == 0) barrier_expect(barriers.full + stage, static_cast<uint32_t>(tiles * bytes));
    __syncwarp();
    if (lane < tiles) {
      const int64_t chunk = (first + lane) * in.chunks + 2 * step;
      copy_bulk(memory + stage * Shape::kWeights + lane * 2 * Shape::kChunk, in.weights + chunk * Shape::kChunk,
                static_cast<uint32_t>(bytes), barriers.full + stage);
    }
  };
  int fed = 0;  // stages of x
  // The columns of x that the steps from u on need, where u is the first of them.
  const auto feed_x = [&](int64_t u) {
    const int step = static_cast<int>(u % args.steps);
    if (u != begin && step % kXSteps != 0) return;
    const int stage = fed % kXStages, first = step / kXSteps * kXSteps * kStepCols;
    if (fed >= kXStages) barrier_wait(barriers.x_empty() + stage, static_cast<uint32_t>(fed / kXStages - 1) & 1);
    ++fed;
    const int bytes = 2 * min(kXSteps * kStepCols, in.chunks * kStreamCols - first);
    if (lane == 0) barrier_expect(barriers.x_full() + stage, static_cast<uint32_t>(in.rows * bytes));
    __syncwarp();
    std::byte* to = memory + Shape::kX + stage * Shape::kXStage;
    for (int row = lane; row < in.rows; row += 32)
      copy_bulk(to + row * kXRow, in.x.row(row) + first * 2, static_cast<uint32_t>(bytes), barriers.x_full() + stage,
                false);
  };
  for (int i = 0; i < Shape::kStages && begin + i < end; ++i) feed_weights(begin + i, i);
  wait_for_inputs();
  for (int i = 0; i < Shape::kStages && begin + i < end; ++i) feed_x(begin + i);
  int stage = 0;
  uint32_t parity = 0;
  for (int64_t u = begin + Shape::kStages; u < end; ++u) {
    barrier_wait(barriers.empty() + stage, parity);
    feed_weights(u, stage);
    feed_x(u);
    if (++stage == Shape::kStages) stage = 0, parity ^= 1;
  }
}

// 16 outputs by 64 columns (or 32, the last) by all rows of x.
template <int NT>
__device__ void multiply_step(const std::byte* weights, const std::byte* x, int halves, int half_bytes, int lane,
                              float (&acc)[NT][4]) {
  const std::byte* mine = x + lane / 4 * kXRow + lane % 4 * 16;
#pragma unroll(NT > 4 ? 1 : 2)
  for (int half = 0; half < 2; ++half) {
    if (half == halves) break;
    uint32_t a[2][4];
    StreamBF16::fragment(weights + half * half_bytes, 0, lane, a[0]);
    StreamBF16::fragment(weights + half * half_bytes, 1, lane, a[1]);
#pragma unroll
    for (int i = 0; i < NT; ++i) {
      const uint4 v = *reinterpret_cast<const uint4*>(mine + i * 8 * kXRow + half * 64);
      const uint32_t b0[2] = {v.x, v.y}, b1[2] = {v.z, v.w};
      multiply_bf16(acc[i], a[0], b0);
      multiply_bf16(acc[i], a[1], b1);
    }
  }
}

// Sums of a tile that several blocks have a part of. True for the warp that came last: acc is the whole then.
template <int NT>
__device__ bool join_parts(const WideArgs& args, int64_t tile, int warp, int lane, float (&acc)[NT][4]) {
  const Cuts cuts = cuts_of(args);
  // A block has at most two tiles that are cut: its first and its last.
  const auto room = [&](int64_t block) {
    const int last = cuts.begin(block) / args.steps == tile ? 0 : 1;
    return args.partial + ((block * 2 + last) * kWarps + warp) * NT * 32 + lane;
  };
  float4* mine = room(blockIdx.x);
#pragma unroll
  for (int i = 0; i < NT; ++i) mine[i * 32] = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
  __threadfence();
  __syncwarp();
  const int64_t from = cuts.block_of(tile * args.steps), to = cuts.block_of((tile + 1) * args.steps - 1);
  uint32_t* ticket = args.tickets + tile * kWarps + warp;
  uint32_t arrived = 0;
  if (lane == 0) arrived = atomicAdd(ticket, 1u);
  arrived = __shfl_sync(0xffffffffu, arrived, 0);
  if (arrived != static_cast<uint32_t>(to - from)) return false;
  __threadfence();
  if (lane == 0) *ticket = 0;
#pragma unroll
  for (int i = 0; i < NT; ++i) acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0;
  for (int64_t block = from; block <= to; ++block) {
    const float4* of = room(block);
#pragma unroll
    for (int i = 0; i < NT; ++i) {
      const float4 v = of[i * 32];
      acc[i][0] += v.x, acc[i][1] += v.y, acc[i][2] += v.z, acc[i][3] += v.w;
    }
  }
  return true;
}

// The warp's 16 outputs of all rows, [NT][4] as the product left them, to where they belong.
template <int R, int NT>
__device__ void store_warp(const StreamArgs& args, int64_t tile, int m, int lane, const float* sums) {
  if (tile >= args.tiles) return;
  const int p = m * 16 + lane / 4;
  const bool is_plain = args.map.order == RowOrder::kPlain;
  const PartRow first = is_plain ? packed_row(args.map, R, tile, p) : PartRow{};
  const PartRow second = is_plain ? packed_row(args.map, R, tile, p + 8) : PartRow{};
  const int64_t j = tile * (R / 2) + m * 8 + lane / 4;
#pragma unroll 1
  for (int i = 0; i < 2 * NT; ++i) {
    const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
    if (row >= args.rows) continue;
    const float a = sums[i / 2 * 4 + i % 2], b = sums[i / 2 * 4 + i % 2 + 2];
    if (is_plain) {
      store_plain(args, first, row, a, read_plain(args, first, row));
      store_plain(args, second, row, b, read_plain(args, second, row));
    } else {
      store_pair(args, j, row, a, b, read_pair(args, j, row));
    }
  }
}

// A tile's end, of a whole tile or of this block's part of it. A function of its own: in the kernel's loop it would
// take registers that make the sums spill.
template <int R, int NT>
__device__ __noinline__ void finish_tile(const WideArgs& args, int64_t tile, bool is_whole, float (&sums)[NT][4]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (!is_whole && !join_parts<NT>(args, tile, warp, lane, sums)) return;
  constexpr int kPerTile = R / 16;
  store_warp<R, NT>(args.stream, tile * WideShape<R, NT>::kTiles + warp / kPerTile, warp % kPerTile, lane, &sums[0][0]);
}

template <int R, int NT>
__global__ void __launch_bounds__(WideShape<R, NT>::kThreads, 1) linear_wide(const __grid_constant__ WideArgs args) {
  using Shape = WideShape<R, NT>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::byte* memory = shared_memory<std::byte>();
  const WideBarriers<Shape> barriers(memory);
  let_next_begin();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      barrier_init(barriers.full + i, 1);
      barrier_init(barriers.empty() + i, Shape::kConsumers);
    }
    for (int i = 0; i < kXStages; ++i) {
      barrier_init(barriers.x_full() + i, 1);
      barrier_init(barriers.x_empty() + i, Shape::kConsumers);
    }
    barrier_inits_done();
  }
  __syncthreads();
  const Cuts cuts = cuts_of(args);
  const int64_t begin = cuts.begin(blockIdx.x), end = cuts.begin(int64_t{blockIdx.x} + 1);
  if (warp == Shape::kConsumers) return feed_rings<Shape, NT>(args, memory, barriers, begin, end);

  wait_for_inputs();
  constexpr int kPerTile = R / 16;
  const int packed = warp / kPerTile, m = warp % kPerTile;
  const std::byte* weights = memory + packed * 2 * Shape::kChunk + m * StreamBF16::kBytes;
  int stage = 0, x_seen = 0;
  uint32_t parity = 0;
  float acc[NT][4] = {};
  int64_t tile = begin / args.steps;
  int step = static_cast<int>(begin % args.steps);
  bool is_whole = step == 0;
  for (int left = static_cast<int>(end - begin); left > 0; --left) {
    if (x_seen == 0 || step % kXSteps == 0) {
      barrier_wait(barriers.x_full() + x_seen % kXStages, static_cast<uint32_t>(x_seen / kXStages) & 1);
      ++x_seen;
    }
    const int x_stage = (x_seen - 1) % kXStages;
    barrier_wait(barriers.full + stage, parity);
    multiply_step<NT>(weights + stage * Shape::kWeights,
                      memory + Shape::kX + x_stage * Shape::kXStage + step % kXSteps * kStepCols * 2,
                      min(2, args.stream.chunks - 2 * step), Shape::kChunk, lane, acc);
    const bool tile_ends = step + 1 == args.steps;
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(barriers.empty() + stage);
      if (tile_ends || left == 1 || step % kXSteps == kXSteps - 1) barrier_arrive(barriers.x_empty() + x_stage);
    }
    if (++stage == Shape::kStages) stage = 0, parity ^= 1;
    ++step;
    if (!tile_ends && left > 1) continue;
    float sums[NT][4];
#pragma unroll
    for (int i = 0; i < NT; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][e] = acc[i][e];
    finish_tile<R, NT>(args, tile, is_whole && tile_ends, sums);
#pragma unroll
    for (int i = 0; i < NT; ++i) acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0;
    ++tile;
    step = 0;
    is_whole = true;
  }
}

template <int R, int NT>
void launch_wide(WideArgs& args, const Ctx& ctx) {
  using Shape = WideShape<R, NT>;
  args.tiles = ceil_div(args.stream.tiles, Shape::kTiles);
  CHECK(args.tiles * kWarps <= kTickets, "{} tiles", args.tiles);
  const int64_t blocks = std::min<int64_t>(ctx.multiprocessors, args.tiles * args.steps);
  launch(ctx, linear_wide<R, NT>, {dim3(blocks), dim3(Shape::kThreads), Shape::kShared}, args);
}

template <int R>
void launch_rows(WideArgs& args, const Ctx& ctx) {
  if (args.stream.rows <= 16) return launch_wide<R, 2>(args, ctx);
  if (args.stream.rows <= 32) return launch_wide<R, 4>(args, ctx);
  return launch_wide<R, 8>(args, ctx);
}

}  // namespace

int64_t wide_scratch(int64_t rows, int multiprocessors) {
  const int64_t of_rows = rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
  return int64_t{multiprocessors} * 2 * kWarps * of_rows * 32 * static_cast<int64_t>(sizeof(float4));
}

void run_wide(const StreamRun& run, std::byte* partial, const Ctx& ctx) {
  const Linear& op = *run.op;
  CHECK(run.rows >= 1 && run.rows <= kWideRows && op.streamed != nullptr && run.x.data != nullptr, "{} rows", run.rows);
  WideArgs args;
  args.stream = stream_args(run, ctx);
  args.steps = static_cast<int>(ceil_div(args.stream.chunks, 2));
  args.partial = reinterpret_cast<float4*>(partial);
  args.tickets = ctx.tickets;
  switch (op.streamed_rows) {
    case 16:
      return launch_rows<16>(args, ctx);
    case 32:
      return launch_rows<32>(args, ctx);
    case 48:
      return launch_rows<48>(args, ctx);
    default:
      CHECK(false, "tiles of {} rows", op.streamed_rows);
  }
}

}  // namespace ingot::cuda
