// The kernel of nine to 32 rows: weights stream past once, and every 16 of them meet all rows.
//
// The packed tiles are dealt to slabs of at most 256 rows, one block for each; where slabs are too few for the device,
// a slab's columns are cut into slices, whose blocks hand each other their sums and share the outputs; sums are always
// added in the same order. A block's first warps are consumers, 16 or 32 rows of the weights each. Its last four warps
// are feeders: they ask for the weights, as deep as the ring is, and bring x, 64 columns or a chunk a step. Taller
// slabs read x less often: at 32 rows of x a slab of 256 rows of bf16 reads 12.5 % more than its weights from the L2
// cache, one of 128 25 %, and the streaming kernel's tiles of 48 67 %.
//
// As in the streaming kernel, places are found before the previous kernel has ended, and what is read beside the
// products is asked for right after it.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "cuda/wgmma.cuh"  // barrier_arrive_after_copies, barrier_some
#include "matmul/cuda/stream_formats.cuh"
#include "matmul/cuda/wide_end.cuh"

namespace ingot::cuda {
namespace {

constexpr int kFeeders = 4;  // warps

// A step: chunks of W, and bytes of a row of x.
template <class W>
constexpr WideStep kStep = wide_step<W>();
template <class W>
constexpr int kStepChunks = kStep<W>.units / W::kUnits;
template <class W>
constexpr int kXRow = kStep<W>.x_row();

constexpr int kThreads = 32 * (kWideConsumers + kFeeders);

// A block's way through its work: the steps of one slice, or of slab after slab.
struct Walk {
  int64_t slab;
  int slice, begin, end;  // steps of the slice
  int slabs;              // that this block has
  __device__ explicit Walk(const WidePlan& plan) {
    const int blocks = static_cast<int>(gridDim.x);
    slice = static_cast<int>(blockIdx.y);
    slab = blockIdx.x;
    slabs = plan.slabs == blocks ? 1 : (plan.slabs - static_cast<int>(slab) + blocks - 1) / blocks;
    begin = plan.steps * slice / plan.slices;
    end = plan.steps * (slice + 1) / plan.slices;
  }
  __device__ int total() const { return slabs * (end - begin); }
};

// Stages of [the slab's tiles][a step's chunks] and [32 rows of x][its columns]. Copies fill a stage and complete its
// barrier; consumers hand it back at the block's barrier 1 + stage, all lanes of them: one instruction for a warp,
// where an arrival of one lane for all is a race in the eyes of compute-sanitizer.
struct Ring {
  std::byte* memory;
  CopyBarrier* full;
  int stages, bytes, x_at;
  int stage = 0;
  uint32_t parity = 0;
  // By consumers, and by feeders; whole warps.
  __device__ void hand_back() const {
    __syncwarp();
    barrier_some_arrive(1 + stage, kThreads);
  }
  __device__ void wait_until_handed_back() const {
    __syncwarp();
    barrier_some(1 + stage, kThreads);
  }
  __device__ std::byte* at() const { return memory + stage * bytes; }
  __device__ void advance() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

// What feeders ask for next, one packed tile for each lane of a few.
template <class W>
struct WeightFeed {
  int64_t slab;
  int step;
  __device__ void fetch(const WideArgs& args, const Walk& walk, const Ring& ring, int warp, int lane) {
    const WidePlan& plan = args.plan;
    const int chunk_bytes = plan.tile_rows / 16 * W::kBytes, chunk = step * kStepChunks<W>;
    const uint32_t bytes = static_cast<uint32_t>(min(kStepChunks<W>, args.stream.chunks - chunk) * chunk_bytes);
    const int tiles = static_cast<int>(min(int64_t{plan.tiles}, args.stream.tiles - slab * plan.tiles));
    const int mine = tiles > warp ? (tiles - warp + kFeeders - 1) / kFeeders : 0;  // warp, warp + kFeeders, …
    if (lane == 0) barrier_expect(ring.full + ring.stage, bytes * static_cast<uint32_t>(mine));
    __syncwarp();
    if (lane < mine) {
      const int of_slab = warp + lane * kFeeders;
      const int64_t tile = slab * plan.tiles + of_slab;
      copy_bulk(ring.at() + of_slab * kStepChunks<W> * chunk_bytes,
                args.stream.weights + (tile * args.stream.chunks + chunk) * chunk_bytes, bytes, ring.full + ring.stage);
    }
    if (++step == walk.end) step = walk.begin, slab += gridDim.x;
  }
};

// scale[row] of the rows that the product before left behind, kFeeders apart for each feeder: a row's squares are
// asked for in one step of the ring and added up in the next, so that no step waits for them.
struct ScaleFeed {
  static constexpr int kHeld = 8;
  float held[kHeld];
  int row;  // the next to ask for
  bool pending = false;

  __device__ void ask(const StreamArgs& args, int lane) {
    pending = row < args.rows;
    if (!pending) return;
    const float* squares = args.from.squares + int64_t{row} * args.from.parts;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held[i] = lane + 32 * i < args.from.parts ? squares[lane + 32 * i] : 0.0f;
  }
  __device__ void add(const StreamArgs& args, float* scale, int lane) {
    if (!pending) return;
    const NormLink& from = args.from;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) sum += held[i];
    for (int i = lane + 32 * kHeld; i < from.parts; i += 32) sum += from.squares[int64_t{row} * from.parts + i];
    sum = warp_sum(sum);
    if (lane == 0) scale[row] = inverse_root(sum, from.x.cols, from.eps);
    row += kFeeders;
    pending = false;
  }
};

// Pieces of eight columns of x, those of odd rows with their halves exchanged, so that eight lanes that read four
// pieces of two rows have all banks.
template <class W>
__device__ int x_place(int row, int piece) {
  return row * kXRow<W> + (piece ^ row % 2 * 4) * 16;
}

template <class W>
__device__ void feed(const WideArgs& args, const Walk& walk, Ring ring, float* scale, CopyBarrier* scales_there,
                     int warp, int lane) {
  const StreamArgs& in = args.stream;
  const int total = walk.total(), deep = min(ring.stages, total), steps = walk.end - walk.begin;
  WeightFeed<W> weights{walk.slab, walk.begin};
  ScaleFeed scales;
  scales.row = warp;
  for (Ring first = ring; first.parity == 0 && first.stage < deep; first.advance())
    weights.fetch(args, walk, first, warp, lane);
  constexpr int kPieces = kXRow<W> / 16;
  const int thread = warp * 32 + lane, piece = thread % kPieces, row = thread / kPieces;
  const std::byte* from = in.x.row(row) + piece * 16;
  constexpr int kRows = kFeeders * 32 / kPieces;  // that feeders bring at a time
  const int64_t rows_bytes = in.x.stride * 2 * kRows;
  wait_for_inputs();

  int step = walk.begin;
  for (int i = 0; i < total; ++i) {
    if (i >= ring.stages) {
      ring.wait_until_handed_back();
      weights.fetch(args, walk, ring, warp, lane);
    }
    const bool exists = step * kStep<W>.units + piece / 4 < in.units;
#pragma unroll
    for (int u = 0; u < kWideRows / kRows; ++u) {
      if (row + u * kRows >= in.rows) break;
      std::byte* to = ring.at() + ring.x_at + x_place<W>(row + u * kRows, piece);
      // A chunk that reaches beyond x is multiplied as a whole: with zeros.
      if (exists) {
        copy_async(to, from + u * rows_bytes + step * kXRow<W>);
      } else if (W::kUnits > 1) {
        copy_async(to, in.x.data, false);
      }
    }
    barrier_arrive_after_copies(ring.full + ring.stage);
    ring.advance();
    if (++step == walk.end) step = walk.begin;
    if (i >= steps) continue;
    if (in.from.weight != nullptr && i + 1 >= deep) {  // first x, as deep as the ring is
      scales.add(in, scale, lane);
      scales.ask(in, lane);
    }
    // Consumers want them at the end of the first slab.
    if (i != steps - 1) continue;
    if (in.from.weight != nullptr && !scales.pending) scales.ask(in, lane);
    while (scales.pending) {
      scales.add(in, scale, lane);
      scales.ask(in, lane);
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(scales_there);
  }
}

// A lane's eight columns of unit `unit` of a step, of every octet.
template <class W>
__device__ __forceinline__ void load_x(const std::byte* rows, int unit, int lane, uint4 (&x)[kWideOctets]) {
#pragma unroll
  for (int j = 0; j < kWideOctets; ++j) {
    const int row = j * 8 + lane / 4, t = lane % 4;
    if constexpr (W::kBySixteens) {
      const std::byte* at = rows + t % 2 * 8;
      const uint2 a = *reinterpret_cast<const uint2*>(at + x_place<W>(row, unit * 4 + t / 2));
      const uint2 b = *reinterpret_cast<const uint2*>(at + x_place<W>(row, unit * 4 + 2 + t / 2));
      x[j] = make_uint4(a.x, a.y, b.x, b.y);
    } else {
      x[j] = *reinterpret_cast<const uint4*>(rows + x_place<W>(row, unit * 4 + t));
    }
  }
}

// The sums of a slab's slice, of M times 16 rows of the weights at weights_at of each stage. `left`: the block's steps
// that are still to come.
template <class W, int M>
__device__ __forceinline__ void multiply(const WideArgs& args, const Walk& walk, Ring& ring, int& left,
                                         const int (&weights_at)[M], int lane, float (&sums)[M][kWideOctets][4]) {
  const int chunk_bytes = args.plan.tile_rows / 16 * W::kBytes, chunks = args.stream.chunks;
  for (int step = walk.begin; step < walk.end; ++step) {
    barrier_wait(ring.full + ring.stage, ring.parity);
    const std::byte* rows = ring.at() + ring.x_at;
#pragma unroll
    for (int c = 0; c < kStepChunks<W>; ++c) {
      if (c > 0 && step * kStepChunks<W> + c >= chunks) break;
      const std::byte* at[M];
#pragma unroll
      for (int i = 0; i < M; ++i) at[i] = ring.at() + c * chunk_bytes + weights_at[i];
      const auto x_of = [&](int u, uint4(&x)[kWideOctets]) { load_x<W>(rows, c * W::kUnits + u, lane, x); };
      multiply_chunk<W, M, kWideOctets>(at, x_of, lane, sums);
    }
    if (--left >= ring.stages) ring.hand_back();  // else nobody waits for it any more
    ring.advance();
  }
}

// The tile of 16, 32 or 48 rows that has a sixteen.
__device__ inline int tile_of(int sixteen, int tile_rows) {
  return tile_rows == 48 ? sixteen * 43 >> 7 : tile_rows == 32 ? sixteen / 2 : sixteen;
}

// A consumer's M sixteens of a slab.
template <int M>
struct Sixteens {
  int of_slab[M];
  int64_t of_all[M];  // below 0: none
  __device__ void find(const WideArgs& args, int64_t slab, int warp) {
    const int tile_rows = args.plan.tile_rows, tiles = args.plan.tiles;
#pragma unroll
    for (int i = 0; i < M; ++i) {
      of_slab[i] = i * kWideConsumers + warp;
      const int tile = tile_of(of_slab[i], tile_rows);
      const int64_t of_tiles = slab * tiles * (tile_rows / 16) + of_slab[i];
      of_all[i] = tile < tiles && slab * tiles + tile < args.stream.tiles ? of_tiles : -1;
    }
  }
};

// What a consumer makes with slices: an octet of each of its sixteens, or of one of two.
template <int M, int S, bool kPairs>
struct SliceItems {
  static constexpr int kCount = S > kWideOctets ? 1 : M;
  std::conditional_t<kPairs, OctetPairs, OctetOutputs> of[kCount];
  __device__ void find(const WideArgs& args, const Walk& walk, const Sixteens<M>& mine) {
#pragma unroll
    for (int i = 0; i < M; ++i) {
      const int octet = octet_of<S>(walk.slice, mine.of_slab[i]);
      if (mine.of_all[i] >= 0 && octet < kWideOctets) of[i % kCount].find(args.stream, mine.of_all[i], octet);
    }
  }
  __device__ void read(const StreamArgs& args) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) of[i].read(args);
  }
};

// With slices: this block's sums to the others, and its octets with theirs to where they belong.
template <int M, int S, bool kPairs>
__device__ __forceinline__ void finish_slice(const WideArgs& args, const Walk& walk, const Sixteens<M>& mine,
                                             const SliceItems<M, S, kPairs>& items, const float* scale, float* room,
                                             const float (&sums)[M][kWideOctets][4]) {
  const int rows = args.stream.rows;
  const Handed<S> handed(args, walk.slab, mine.of_slab[0]);
#pragma unroll
  for (int i = 0; i < M; ++i) {
    Handed<S> of = handed;
    of.at += i * (kWideConsumers * kWideOctets * of.kOctet);
    if (mine.of_all[i] >= 0) of.give(walk.slice, octet_of<S>(walk.slice, mine.of_slab[i]), rows, sums[i]);
  }
#pragma unroll
  for (int i = 0; i < M; ++i) {
    const int octet = octet_of<S>(walk.slice, mine.of_slab[i]);
    if (mine.of_all[i] < 0 || octet * 8 >= rows) continue;
    Handed<S> of = handed;
    of.at += i * (kWideConsumers * kWideOctets * of.kOctet);
    float all[4];
    of.add(walk.slice, octet, sums[i], all);
    items.of[i % items.kCount].finish(args.stream, all, scale, room);
  }
}

// Without: all octets.
template <bool kPairs>
__device__ __forceinline__ void finish_sixteen(const WideArgs& args, int64_t sixteen, const float* scale, float* room,
                                               const float (&sums)[kWideOctets][4]) {
#pragma unroll
  for (int j = 0; j < kWideOctets; ++j) {
    if (j * 8 >= args.stream.rows) break;
    std::conditional_t<kPairs, OctetPairs, OctetOutputs> items;
    items.find(args.stream, sixteen, j);
    items.read(args.stream);
    items.finish(args.stream, sums[j], scale, room);
  }
}

template <class W, int M, int S, WideEnd E>
__device__ void consume(const WideArgs& args, const Walk& walk, Ring ring, const float* scale,
                        CopyBarrier* scales_there, float* room, int warp, int lane) {
  constexpr bool kPairs = E != WideEnd::kPlain;
  const WidePlan& plan = args.plan;
  const float* scales = args.stream.from.weight != nullptr ? scale : nullptr;
  int weights_at[M];
#pragma unroll
  for (int i = 0; i < M; ++i) {
    const int sixteen = i * kWideConsumers + warp, tile = tile_of(sixteen, plan.tile_rows);
    // Warps beyond the slab's tiles multiply those of another.
    weights_at[i] = min(tile, plan.tiles - 1) * (plan.tile_rows / 16) * kStepChunks<W> * W::kBytes +
                    (sixteen - tile * (plan.tile_rows / 16)) * W::kBytes;
  }
  Sixteens<M> mine;
  mine.find(args, walk.slab, warp);
  SliceItems<M, S, kPairs> items;
  if constexpr (S > 1) items.find(args, walk, mine);
  wait_for_inputs();
  if constexpr (S > 1) items.read(args.stream);
  int left = walk.total();
  for (int s = 0; s < walk.slabs; ++s) {
    if (s > 0) mine.find(args, walk.slab + int64_t{s} * gridDim.x, warp);
    uint16_t* units[M] = {};
    if constexpr (E == WideEnd::kSilu) {
#pragma unroll
      for (int i = 0; i < M; ++i) {
        const int64_t pair = mine.of_all[i] * 8 + lane / 4;
        if (mine.of_all[i] >= 0 && pair < args.stream.map.rows[0])
          units[i] = reinterpret_cast<uint16_t*>(args.stream.outs[0].out.data) + pair;
      }
    }
    float sums[M][kWideOctets][4] = {};
    multiply<W, M>(args, walk, ring, left, weights_at, lane, sums);
    barrier_wait(scales_there, 0);
    if constexpr (S > 1) {
      finish_slice<M, S, kPairs>(args, walk, mine, items, scales, room, sums);
    } else {
#pragma unroll
      for (int i = 0; i < M; ++i) {
        if constexpr (E == WideEnd::kSilu) {
          finish_silu(args.stream, units[i], scales, sums[i]);
        } else if (mine.of_all[i] >= 0) {
          finish_sixteen<kPairs>(args, mine.of_all[i], scales, room, sums[i]);
        }
      }
    }
  }
}

// M times 16 rows of the weights for each consumer, S slices.
template <class W, int M, int S, WideEnd E>
__global__ void __launch_bounds__(kThreads, 1) linear_wide(const __grid_constant__ WideArgs args) {
  const WidePlan& plan = args.plan;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int stage_bytes = plan.stage_bytes();
  Ring ring{shared_memory<std::byte>(), nullptr, plan.stages, stage_bytes, stage_bytes - kWideRows * kXRow<W>};
  float* scale = reinterpret_cast<float*>(ring.memory + ring.stages * ring.bytes);
  float* room = scale + kWideRows;
  ring.full = reinterpret_cast<CopyBarrier*>(room + kWideConsumers * kTurnedRoom);
  CopyBarrier* scales_there = ring.full + ring.stages;
  let_next_begin();
  if (threadIdx.x == 0) {
    for (int i = 0; i < ring.stages; ++i) barrier_init(ring.full + i, kFeeders + 32 * kFeeders);
    barrier_init(scales_there, kFeeders);
    barrier_inits_done();
  }
  __syncthreads();
  const Walk walk(plan);
  if (warp >= kWideConsumers) return feed<W>(args, walk, ring, scale, scales_there, warp - kWideConsumers, lane);
  consume<W, M, S, E>(args, walk, ring, scale, scales_there, room + warp * kTurnedRoom, warp, lane);
}

WideEnd end_of(const StreamArgs& in, const WidePlan& plan) {
  if (in.map.order == RowOrder::kPlain) return WideEnd::kPlain;
  const bool silu = in.map.order == RowOrder::kGlu && in.glu == ActivationKind::kSilu && plan.slices == 1 &&
                    in.outs[0].out.dtype == DType::kBF16 && in.outs[0].bias == nullptr && in.outs[1].bias == nullptr;
  return silu ? WideEnd::kSilu : WideEnd::kPairs;
}

template <class W, int M, int S, WideEnd E>
void launch_wide(const WideArgs& args, const DeviceCtx& ctx) {
  const WidePlan& plan = args.plan;
  const dim3 grid(std::min(plan.slabs, ctx.multiprocessors), S);
  const Launch shape{grid, dim3(kThreads), plan.shared_bytes(), S > 1};
  launch(ctx, linear_wide<W, M, S, E>, shape, args);
}

template <class W, int M>
void launch_sixteens(const WideArgs& args, const DeviceCtx& ctx) {
  const WideEnd end = end_of(args.stream, args.plan);
  switch (args.plan.slices) {
    case 1:
      if (end == WideEnd::kSilu) return launch_wide<W, M, 1, WideEnd::kSilu>(args, ctx);
      if (end == WideEnd::kPairs) return launch_wide<W, M, 1, WideEnd::kPairs>(args, ctx);
      return launch_wide<W, M, 1, WideEnd::kPlain>(args, ctx);
    case 4:
      if (end == WideEnd::kPairs) return launch_wide<W, M, 4, WideEnd::kPairs>(args, ctx);
      return launch_wide<W, M, 4, WideEnd::kPlain>(args, ctx);
    default:
      if constexpr (kStep<W>.most_slices == 8) {
        CHECK(args.plan.slices == 8, "{} slices", args.plan.slices);
        if (end == WideEnd::kPairs) return launch_wide<W, M, 8, WideEnd::kPairs>(args, ctx);
        return launch_wide<W, M, 8, WideEnd::kPlain>(args, ctx);
      }
      CHECK(false, "{} slices", args.plan.slices);
  }
}

}  // namespace

template <class W>
void run_wide_format(const WideArgs& args, const DeviceCtx& ctx) {
  return args.plan.sixteens() == 1 ? launch_sixteens<W, 1>(args, ctx) : launch_sixteens<W, 2>(args, ctx);
}

// In each file that makes kernels for some formats.
#define INGOT_WIDE_KERNELS(NAME) template void run_wide_format<Stream##NAME>(const WideArgs&, const DeviceCtx&);

}  // namespace ingot::cuda
