// Tiles of 128 by kN results by warpgroups, compute capability 9.0 alone: two of them have 64 rows each, 64 columns of
// K a stage.
#pragma once

#include <algorithm>

#include "cuda/wgmma.cuh"
#include "ladder/bf16_gemm/bf16_gemm.cuh"

namespace ingot::cuda {

template <int kColumns>
struct GemmTile {
  static constexpr int kM = 128, kN = kColumns, kK = 64;
  static constexpr int kA = kM * 128, kStage = kA + kN * 128;  // bytes; rows of 128
  static constexpr int kStages = kN > 128 ? 4 : 6;
  static constexpr int kBarriers = kStages * kStage;
  static constexpr int64_t kBytes = kBarriers + 2 * kStages * static_cast<int64_t>(sizeof(CopyBarrier));
};

// Columns [k, k + 64) of kRows rows of a matrix on their way into shared memory, by kThreads threads of which this is
// `thread`; zeros beyond its ends.
template <int kRows, int kThreads>
__device__ inline void copy_panel(const GemmMatrix& x, int64_t row, int64_t k, std::byte* to, int thread) {
  constexpr int kApart = kThreads / 8;
  const int piece = thread % 8, first = thread / 8;
  const int count = k + 8 * piece < x.cols ? static_cast<int>(min(x.rows - row, int64_t{kRows})) : 0;
  const std::byte* from = x.row(row + first) + (k + 8 * piece) * 2;
  to += first * 128 + kv_piece(first, piece) * 16;  // rows are multiples of eight apart
#pragma unroll 4
  for (int i = 0; i < kRows / kApart; ++i) {
    const bool there = first + i * kApart < count;
    copy_async(to + i * kApart * 128, there ? from : x.data, there);
    from += kApart * x.stride;
  }
}

// Of both matrices' rows of a tile, into a stage.
template <class T, int kThreads>
__device__ inline void copy_stage(const GemmMatrix& a, const GemmMatrix& b, int64_t row, int64_t col, int64_t k,
                                  std::byte* stage, int thread) {
  copy_panel<T::kM, kThreads>(a, row, k, stage, thread);
  copy_panel<T::kN, kThreads>(b, col, k, stage + T::kA, thread);
}

// One stage for warpgroup `group`; in flight when it returns.
template <class T>
__device__ inline void start_stage(float (&acc)[T::kN / 128][64], const std::byte* stage, int group, bool add) {
  const MatrixPlace a = matrix_by_rows(stage + group * 64 * 128), b = matrix_by_rows(stage + T::kA);
  products_begin();
#pragma unroll
  for (int kk = 0; kk < T::kK / 16; ++kk) {
#pragma unroll
    for (int j = 0; j < T::kN / 128; ++j)
      multiply_group<true, false>(acc[j], further(a, 32 * kk), further(b, j * 128 * 128 + 32 * kk), add || kk > 0);
  }
  products_commit();
}

template <class T>
__device__ inline void finish_tile(float (&acc)[T::kN / 128][64]) {
  if constexpr (T::kN == 128) {
    products_done<0>(acc[0]);
  } else {
    products_done<0>(acc[0], acc[1]);
  }
}

template <class T>
__device__ inline void store_tile(const float (&acc)[T::kN / 128][64], const View& out, int64_t rows, int64_t row,
                                  int64_t col) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int j = 0; j < T::kN / 128; ++j) {
#pragma unroll
    for (int n = 0; n < 16; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        store_pair(out, rows, row + 16 * warp + 8 * h + lane / 4, col + 128 * j + 8 * n + lane % 4 * 2,
                   acc[j][4 * n + 2 * h], acc[j][4 * n + 2 * h + 1]);
    }
  }
}

// Tile i of the grid: row by row; or in columns of kBand tiles, so that what blocks read at a time fits the L2 cache.
template <class T, int kBand>
__device__ inline void place_tile(int64_t i, int64_t m, int64_t n, int64_t& row, int64_t& col) {
  const int64_t across = (n + T::kN - 1) / T::kN;
  if constexpr (kBand == 0) {
    row = i / across * T::kM;
    col = i % across * T::kN;
  } else {
    const int64_t down = (m + T::kM - 1) / T::kM, band = i / (kBand * across), first = band * kBand;
    const int64_t high = min(int64_t{kBand}, down - first);
    row = (first + (i - band * kBand * across) % high) * T::kM;
    col = (i - band * kBand * across) / high * T::kN;
  }
}

// A third warpgroup copies through a ring, two multiply; blocks take tiles in turn.
template <class T, int kBand>
__global__ void __launch_bounds__(384, 1) gemm_specialized(GemmMatrix a, GemmMatrix b, View out, int64_t tiles) {
#if INGOT_HAS_WGMMA
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  auto* full = reinterpret_cast<CopyBarrier*>(shared + T::kBarriers);
  CopyBarrier* empty = full + T::kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kStages; ++i) {
      barrier_init(full + i, 128);
      barrier_init(empty + i, 8);  // warps that multiply
    }
    barrier_inits_done();
  }
  __syncthreads();
  wait_for_inputs();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int64_t steps = (a.cols + T::kK - 1) / T::kK;
  int64_t taken = 0, row, col;  // stages of the tiles before
  if (group < 0) {
    give_registers<56>();
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      place_tile<T, kBand>(tile, a.rows, b.rows, row, col);
      for (int64_t s = 0; s < steps; ++s, ++taken) {
        const int at = static_cast<int>(taken % T::kStages);
        const int64_t turn = taken / T::kStages;
        if (turn > 0) barrier_wait(empty + at, static_cast<uint32_t>(turn - 1) & 1);
        copy_stage<T, 128>(a, b, row, col, s * T::kK, shared + at * T::kStage, static_cast<int>(threadIdx.x));
        barrier_arrive_after_copies(full + at);
      }
    }
    copies_done<0>();
    return;
  }
  take_registers<224>();
  const auto give_back = [&](int64_t stage) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty + stage % T::kStages);
  };
  float acc[T::kN / 128][64];
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    place_tile<T, kBand>(tile, a.rows, b.rows, row, col);
    for (int64_t s = 0; s < steps; ++s, ++taken) {
      const int at = static_cast<int>(taken % T::kStages);
      barrier_wait(full + at, static_cast<uint32_t>(taken / T::kStages) & 1);
      shared_writes_done();
      start_stage<T>(acc, shared + at * T::kStage, group, s > 0);
      products_done<1>();
      if (s > 0) give_back(taken - 1);
    }
    finish_tile<T>(acc);
    give_back(taken - 1);
    store_tile<T>(acc, out, a.rows, row + 64 * group, col);
  }
#endif
}

// `resident`: as many blocks as multiprocessors, which stay; else one for each tile. False: not on this device.
template <class T, int kBand>
bool run_specialized(const Bf16Gemm& op, const Ctx& ctx, bool resident) {
  const GemmMatrix a(op.a, ctx), b(op.b, ctx);
  if (a.rows == 0 || b.rows == 0) return true;
  if (ctx.arch != 90) return false;
  const int64_t tiles = ceil_div(a.rows, T::kM) * ceil_div(b.rows, T::kN);
  const int64_t blocks = resident ? std::min<int64_t>(tiles, ctx.multiprocessors) : tiles;
  launch(ctx, gemm_specialized<T, kBand>, {dim3(blocks), dim3(384), T::kBytes}, a, b, View(op.out), tiles);
  return true;
}

}  // namespace ingot::cuda
