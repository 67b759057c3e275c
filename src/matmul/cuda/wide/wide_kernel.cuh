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
#include "matmul/cuda/tall/tall_weights.cuh"
#include "matmul/cuda/wide/wide_feed.cuh"

namespace ingot::cuda {
namespace {

// A lane's eight columns of unit `unit` of a step, of every octet.
template <class W>
__device__ __forceinline__ void load_x(const std::byte* rows, int unit, int lane, uint4 (&x)[kWideOctets]) {
#pragma unroll
  for (int j = 0; j < kWideOctets; ++j)
    x[j] = *reinterpret_cast<const uint4*>(rows + x_place<W>(j * 8 + lane / 4, unit * 4 + lane % 4));
}

// The sums of a slab's slice, of M times 16 rows of the weights at weights_at of each stage. `left`: the block's steps
// that are still to come.
template <class W, int M>
__device__ __forceinline__ void multiply(const WideArgs& args, const Walk& walk, WideRing& ring, int& left,
                                         const int (&weights_at)[M], int lane,
                                         float (&sums)[M][kWideOctets][4]) requires(!kByWarps<W> && !W::kByGroups) {
  const int chunk_bytes = args.plan.tile_rows / 16 * W::kBytes, chunks = args.stream.chunks;
  for (int step = walk.begin; step < walk.end; ++step) {
    barrier_wait(ring.full + ring.stage, ring.parity);
    const std::byte* rows = ring.x();
#pragma unroll
    for (int c = 0; c < kStepChunks<W>; ++c) {
      if (c > 0 && step * kStepChunks<W> + c >= chunks) break;
      const std::byte* at[M];
#pragma unroll
      for (int i = 0; i < M; ++i) at[i] = ring.at() + c * chunk_bytes + weights_at[i];
      const auto x_of = [&](int u, uint4(&x)[kWideOctets]) { load_x<W>(rows, c * W::kUnits + u, lane, x); };
      multiply_chunk<W, M, kWideOctets>(at, x_of, lane, sums);
    }
    if (--left >= ring.stages) ring.hand_back(ring.stage);  // else nobody waits for it any more
    ring.advance();
  }
}

// The same of codes, J octets of x.
template <class W, int M, int J>
__device__ __forceinline__ void multiply_octets(const WideArgs& args, const Walk& walk, WideRing& ring, int& left,
                                                const int (&weights_at)[M], int lane,
                                                float (&sums)[M][kWideOctets][4]) {
  const int chunk_bytes = args.plan.tile_rows / 16 * W::kBytes, chunks = args.stream.chunks;
  for (int step = walk.begin; step < walk.end; ++step) {
    barrier_wait(ring.full + ring.stage, ring.parity);
#pragma unroll
    for (int c = 0; c < kStepChunks<W>; ++c) {
      if (c > 0 && step * kStepChunks<W> + c >= chunks) break;
      const std::byte* at[M];
#pragma unroll
      for (int i = 0; i < M; ++i) at[i] = ring.at() + c * chunk_bytes + weights_at[i];
      multiply_groups<W, M, J>(at, ring.x(), c * W::kUnits, lane, sums);
    }
    if (--left >= ring.stages) ring.hand_back(ring.stage);  // else nobody waits for it any more
    ring.advance();
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int j = 0; j < J; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[m][j][e] *= power_of_two(W::kSumPower - (e < 2 ? 0 : W::kOdd));
    }
  }
}

// By the octets that there are: one loop for all would multiply octets that nobody asked for.
template <class W, int M>
__device__ __forceinline__ void multiply(const WideArgs& args, const Walk& walk, WideRing& ring, int& left,
                                         const int (&weights_at)[M], int lane,
                                         float (&sums)[M][kWideOctets][4]) requires(kByWarps<W>) {
  if (args.stream.rows <= 8) return multiply_octets<W, M, 1>(args, walk, ring, left, weights_at, lane, sums);
  if (args.stream.rows <= 16) return multiply_octets<W, M, 2>(args, walk, ring, left, weights_at, lane, sums);
  multiply_octets<W, M, kWideOctets>(args, walk, ring, left, weights_at, lane, sums);
}

// The same by warpgroups, 64 columns at a time: while their products run, the operands of the next are unpacked into
// other registers (a loop that fills them more than once a turn makes the compiler wait for every product). A stage is
// handed back when the first products of the next are on their way and its own are done.
template <class W, int M>
__device__ __forceinline__ void multiply(const WideArgs& args, const Walk& walk, WideRing& ring, int& left,
                                         const int (&weights_at)[M], int lane,
                                         float (&sums)[M][kWideOctets][4]) requires(!kByWarps<W> && W::kByGroups) {
  constexpr int kChunks = kStepChunks<W>, kHalves = TurnedFeed<W>::kHalves;
  static_assert(kHalves == 2 && kWideRows == 32);
  const int chunk_bytes = args.plan.tile_rows / 16 * W::kBytes, chunks = args.stream.chunks;
  uint32_t a[kHalves][M][4][4];
  int before = -1;  // a stage to hand back
  for (int step = walk.begin; step < walk.end; ++step) {
    barrier_wait(ring.full + ring.stage, ring.parity);
    shared_writes_done();  // x was copied by other means than those by which products read it
    const MatrixPlace x = matrix_by_rows(ring.x());
    const std::byte* weights = ring.at();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int m = 0; m < M; ++m) {
        TallChunk<W> codes[kChunks];
#pragma unroll
        for (int c = 0; c < kChunks; ++c) codes[c].load(weights + c * chunk_bytes + weights_at[m], lane);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int unit = half * 2 + i / 2, c = unit / W::kUnits;
          uint32_t(&to)[4] = a[half][m][i];
          codes[c].operand(unit % W::kUnits, i % 2, to);
          // What lies there is of another step.
          if (c > 0 && step * kChunks + c >= chunks) to[0] = to[1] = to[2] = to[3] = 0;
        }
      }
      products_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int m = 0; m < M; ++m)
          multiply_group<true, false>(reinterpret_cast<float(&)[16]>(sums[m]), a[half][m][i],
                                      further(x, half * TurnedFeed<W>::kHalf + i * 32));
      }
      products_commit();
      products_done<1>();
      if (half == 0 && before >= 0) ring.hand_back(before);
    }
    before = --left >= ring.stages ? ring.stage : -1;  // else nobody waits for it any more
    ring.advance();
  }
#pragma unroll
  for (int m = 0; m < M; ++m) products_done<0>(reinterpret_cast<float(&)[16]>(sums[m]));
  if (before >= 0) ring.hand_back(before);
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
__device__ void consume(const WideArgs& args, const Walk& walk, WideRing ring, float* scale, CopyBarrier* scales_there,
                        float* room, int warp, int lane) {
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
  await_inputs(args.stream);
  if constexpr (S > 1) items.read(args.stream);
  if constexpr (kByWarps<W>) {
    if (scales != nullptr) make_row_scales(args.stream, scale, warp, lane);
    __syncwarp();
    if (lane == 0) barrier_arrive(scales_there);
  }
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
__global__ void __launch_bounds__(kWideThreads, 1) linear_wide(const __grid_constant__ WideArgs args) {
#if !INGOT_HAS_WGMMA
  if constexpr (W::kByGroups) return;
#endif
  const WidePlan& plan = args.plan;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  WideRing ring{shared_memory<std::byte>(),
                nullptr,
                plan.stages,
                kStep<W>.x_bytes(),
                plan.stage_bytes() - kStep<W>.x_bytes(),
                kMeeting<W>};
  float* scale = reinterpret_cast<float*>(ring.memory + ring.stages * plan.stage_bytes());
  float* room = scale + kWideRows;
  ring.full = reinterpret_cast<CopyBarrier*>(room + kWideConsumers * kTurnedRoom);
  CopyBarrier* scales_there = ring.full + 2 * ring.stages;
  begin_launch(args.stream);
  if (threadIdx.x == 0) {
    for (int i = 0; i < ring.stages; ++i) {
      barrier_init(ring.full + i, kByWarps<W> ? 1 + (args.stream.rows + 7) / 8 : kFeeders + 32 * kFeeders);
      barrier_init(ring.copied() + i, 1);
    }
    barrier_init(scales_there, kByWarps<W> ? kWideConsumers : kFeeders);
    barrier_inits_done();
  }
  __syncthreads();
  const Walk walk(plan);
  // Operands and sums of two sixteens take more registers than a block's threads have each; the feeders need few.
  constexpr bool kMore = W::kByGroups && M > 1;
  if (warp >= kWideConsumers) {
    if constexpr (kMore) give_registers<kByWarps<W> ? 120 : 72>();
    return feed<W>(args, walk, ring, scale, scales_there, warp - kWideConsumers, lane);
  }
  if constexpr (kMore) take_registers<kByWarps<W> ? 192 : 216>();
  consume<W, M, S, E>(args, walk, ring, scale, scales_there, room + warp * kTurnedRoom, warp, lane);
  end_launch(args.stream);
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
  const Launch shape{grid, dim3(kWideThreads), plan.shared_bytes(), S > 1};
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
