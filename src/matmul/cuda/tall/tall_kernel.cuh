// The kernel of nine to 256 rows, or of as many of each of several groups: weights stream past once, are unpacked in
// registers and meet all rows of x by wgmma, of which they are operand A.
//
// A block has 128 rows of the weights, 16 for each of its eight warps, which ask for their own chunks as in the
// streaming kernel. A ninth warp brings x, 64 columns a stage. While the four products of a stage run, the operands of
// the next are unpacked into other registers: at 128 rows a stage's products take 512 cycles of the multiprocessor, the
// unpacking of 4-bit codes some 130 of each scheduler.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "cuda/wgmma.cuh"
#include "matmul/cuda/tall/tall_end.cuh"
#include "matmul/cuda/tall/tall_weights.cuh"

namespace ingot::cuda {
namespace {

constexpr int kXStages = 4;
// Beside the warps that multiply one that brings x; where sums take 128 registers of each thread a warpgroup, three of
// whose warps have nothing to do but to give theirs away.
template <int J>
constexpr int kTallThreads = 32 * (kTallWarps + (J > 1 ? 4 : 1));

// J products of N rows of x each.
template <class W, int N, int J>
struct TallShape {
  static constexpr int kRows = N * J;
  static constexpr int kXBytes = kRows * kTallStepBytes;
  static constexpr int kChunks = kTallBodyUnits / W::kUnits;  // of a body
  // About 48 KB of weights on their way.
  static constexpr int kStages = std::clamp((48 << 10) / (kTallWarps * W::kBytes), 2, 8);
  static constexpr int kRing = kXStages * kXBytes;
  static constexpr int kRoom = kRing + kTallWarps * kStages * W::kBytes;
  static constexpr int kBarriers = kRoom + kTallWarps * kTurnedRoom * 4;
  static constexpr int kShared =
      kBarriers + (2 * kXStages + kTallWarps * kStages) * static_cast<int>(sizeof(CopyBarrier));
};

// The chunks of a warp's 16 rows, on their way.
template <class W, int kStages>
struct TallRing {
  std::byte* memory;
  CopyBarrier* barriers;
  const std::byte* from;  // of chunk 0
  int64_t apart;          // bytes between chunks
  int next, end, last;    // to ask for; of the block; that exists
  int stage = 0;
  uint32_t parity = 0;

  __device__ void begin(int lane) {
    if (lane == 0) {
      for (int i = 0; i < kStages; ++i) barrier_init(barriers + i, 1);
      barrier_inits_done();
    }
    __syncwarp();
    for (int i = 0; i < kStages; ++i) fetch(i, lane);
  }
  __device__ const std::byte* take() const {
    barrier_wait(barriers + stage, parity);
    return memory + stage * W::kBytes;
  }
  // All lanes have read it.
  __device__ void give_back(int lane) {
    fetch(stage, lane);
    if (++stage == kStages) stage = 0, parity ^= 1;
  }

 private:
  // The last body may reach beyond the last chunk: there x has zeros, and any weights will do.
  __device__ void fetch(int to, int lane) {
    if (next >= end) return;
    if (lane == 0) {
      barrier_expect(barriers + to, W::kBytes);
      copy_bulk(memory + to * W::kBytes, from + min(next, last) * apart, W::kBytes, barriers + to);
    }
    ++next;
  }
};

// Stages of x: `full` when the copy is there, `empty` when every warp's products have read it.
struct TallX {
  std::byte* memory;
  CopyBarrier *full, *empty;
  int stage_bytes;
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == kXStages) stage = 0, parity ^= 1;
  }
};

// By one lane. `bytes` of a step: where a tile has fewer rows than the products, the rest is whatever was there, and
// nobody reads what comes of it.
__device__ inline void feed_x(const std::byte* from, uint32_t bytes, TallX x, int first, int end) {
  wait_for_inputs();
  for (int step = first; step < end; ++step) {
    if (step - first >= kXStages) barrier_wait(x.empty + x.stage, x.parity ^ 1);
    barrier_expect(x.full + x.stage, bytes);
    copy_bulk(x.memory + x.stage * x.stage_bytes, from + int64_t{step} * bytes, bytes, x.full + x.stage, false);
    x.advance();
  }
}

#if INGOT_HAS_WGMMA

// The products of the bodies [first, end): the first kUse of J.
template <class W, int N, int J, int kUse, class R>
__device__ __forceinline__ void multiply_bodies(R& ring, TallX& x, int bodies, int lane, float (&sums)[J][N / 2]) {
  using Shape = TallShape<W, N, J>;
  uint32_t a[2][4][4];
  TallChunk<W> chunk;
  bool in_flight = false;
  int before = 0;  // the stage of the products in flight
  for (int body = 0; body < bodies; ++body) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        constexpr int kUnits = W::kUnits;
        const int unit = 2 * half + u;
        if (unit % kUnits == 0) {
          chunk.load(ring.take(), lane);
          __syncwarp();
          ring.give_back(lane);
        }
        chunk.operand(unit % kUnits, 0, a[half][2 * u]);
        chunk.operand(unit % kUnits, 1, a[half][2 * u + 1]);
      }
      barrier_wait(x.full + x.stage, x.parity);
      const MatrixPlace place = matrix_by_rows(x.memory + x.stage * Shape::kXBytes);
      products_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < kUse; ++j)
          multiply_group<true, false>(sums[j], a[half][i], further(place, j * N * kTallStepBytes + i * 32));
      }
      products_commit();
      products_done<1>();
      if (in_flight && lane == 0) barrier_arrive(x.empty + before);
      in_flight = true;
      before = x.stage;
      x.advance();
    }
  }
#pragma unroll
  for (int j = 0; j < kUse; ++j) products_done<0>(sums[j]);
}

// A warp's sums to where they belong, or to those of the other splits: an octet at a time, by one copy of the code that
// ends a product. They wait where x was.
template <int N, int J>
__device__ __forceinline__ void finish_sums(const TallArgs& args, const ExpertTile& tile, int sixteen, int split,
                                            std::byte* memory, float* room, const float (&sums)[J][N / 2]) {
  constexpr int kOctets = N * J / 8;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const TallPlan& plan = args.plan;
  barrier_some(1, 32 * kTallWarps);
  float4* mine = reinterpret_cast<float4*>(memory) + warp * (kOctets * 32) + lane;
#pragma unroll
  for (int j = 0; j < J; ++j) {
#pragma unroll
    for (int n = 0; n < N / 8; ++n)
      mine[(j * (N / 8) + n) * 32] =
          make_float4(sums[j][4 * n], sums[j][4 * n + 1], sums[j][4 * n + 2], sums[j][4 * n + 3]);
  }
  if (sixteen >= plan.sixteens) return;
  wait_for_inputs();
  const int octets = (tile.count + 7) / 8;
  if (args.groups) {
    const PlacesEnd end(args.groups, tile, sixteen);
#pragma unroll 2
    for (int i = 0; i < octets; ++i) end.finish(i, mine[i * 32]);
    return;
  }
  if (plan.splits > 1) {
    float4* to = reinterpret_cast<float4*>(args.sums) + (int64_t{split} * plan.sixteens + sixteen) * kOctets * 32;
    for (int i = 0; i < octets; ++i) to[i * 32 + lane] = mine[i * 32];
    return;
  }
#pragma unroll 1
  for (int i = 0; i < octets; ++i) finish_octets(args.stream, sixteen, i, mine[i * 32], room + warp * kTurnedRoom);
}

#endif

// Of few rows two on a multiprocessor, so that one multiplies while the other begins or ends; where weights have mins
// there are not enough registers for that.
template <class W>
constexpr bool kHasMins = false;
template <class W>
requires(W::kScaled) constexpr bool kHasMins<W> = W::Scales::kMins;
template <class W, int N>
constexpr int kTallBlocks = N <= 32 && !kHasMins<W> ? 2 : 1;

template <class W, int N, int J>
__global__ void __launch_bounds__(kTallThreads<J>, kTallBlocks<W, N>)
    linear_tall(const __grid_constant__ TallArgs args) {
#if INGOT_HAS_WGMMA
  using Shape = TallShape<W, N, J>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const TallPlan& plan = args.plan;
  let_next_begin();
  ExpertTile tile{.expert = 0, .first = 0, .count = args.stream.rows, .unused = 0};
  if (args.groups) {
    wait_for_inputs();
    if (!find_tile(args.groups, static_cast<int>(blockIdx.y), Shape::kRows, tile)) return;
  }
  const int split = args.groups ? 0 : static_cast<int>(blockIdx.y);
  const int first = plan.bodies * split / plan.splits, end = plan.bodies * (split + 1) / plan.splits;
  std::byte* memory = shared_memory<std::byte>();
  CopyBarrier* barriers = reinterpret_cast<CopyBarrier*>(memory + Shape::kBarriers);
  TallX x{memory, barriers, barriers + kXStages, Shape::kXBytes};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kXStages; ++i) {
      barrier_init(x.full + i, 1);
      barrier_init(x.empty + i, kTallWarps);
    }
    barrier_inits_done();
  }
  const int tile_sixteens = args.tile_rows / 16;
  const int sixteen = static_cast<int>(blockIdx.x) * kTallWarps + warp;
  const int packed = min(sixteen, plan.sixteens - 1), packed_tile = packed / tile_sixteens;
  TallRing<W, Shape::kStages> ring{
      .memory = memory + Shape::kRing + warp * Shape::kStages * W::kBytes,
      .barriers = barriers + 2 * kXStages + warp * Shape::kStages,
      .from = args.stream.weights + tile.expert * args.groups.stride +
              (int64_t{packed_tile} * args.stream.chunks * tile_sixteens + packed - packed_tile * tile_sixteens) *
                  W::kBytes,
      .apart = int64_t{tile_sixteens} * W::kBytes,
      .next = first * Shape::kChunks,
      .end = end * Shape::kChunks,
      .last = args.stream.chunks - 1};
  if (warp < kTallWarps) ring.begin(lane);
  __syncthreads();
  if (warp >= kTallWarps) {
    if constexpr (J > 1) give_registers<40>();
    if (warp != kTallWarps || lane != 0) return;
    const int rows = args.groups ? tile.count : Shape::kRows;
    const int64_t at = args.groups ? tile_x(args.groups, tile) * plan.bodies * 2 * kTallStepBytes : 0;
    feed_x(args.x + at, static_cast<uint32_t>(rows * kTallStepBytes), x, 2 * first, 2 * end);
    return;
  }
  if constexpr (J > 1) take_registers<232>();
  float sums[J][N / 2] = {};
  // The last tile of a group may have less than half of the rows.
  if (J > 1 && tile.count <= N) {
    multiply_bodies<W, N, J, 1>(ring, x, end - first, lane, sums);
  } else {
    multiply_bodies<W, N, J, J>(ring, x, end - first, lane, sums);
  }
  finish_sums<N, J>(args, tile, sixteen, split, memory, reinterpret_cast<float*>(memory + Shape::kRoom), sums);
#endif
}

template <class W, int N, int J>
void launch_tall(const TallArgs& args, const DeviceCtx& ctx) {
  const dim3 grid(static_cast<unsigned>(args.plan.blocks),
                  static_cast<unsigned>(args.groups ? args.groups.tiles : args.plan.splits));
  launch(ctx, linear_tall<W, N, J>, {grid, dim3(kTallThreads<J>), TallShape<W, N, J>::kShared}, args);
}

}  // namespace

template <class W>
void run_tall_format(const TallArgs& args, const DeviceCtx& ctx) {
  switch (args.plan.x_rows) {
    case 32:
      return launch_tall<W, 32, 1>(args, ctx);
    case 64:
      return launch_tall<W, 64, 1>(args, ctx);
    case 128:
      return launch_tall<W, 128, 1>(args, ctx);
    default:
      CHECK(args.plan.x_rows == 256, "{} rows", args.plan.x_rows);
      return launch_tall<W, 128, 2>(args, ctx);
  }
}

// In each file that makes kernels for some formats.
#define INGOT_TALL_KERNELS(NAME) template void run_tall_format<Stream##NAME>(const TallArgs&, const DeviceCtx&);

}  // namespace ingot::cuda
