// A product of float32 by tiles, exact float32: a thread has kEachM × kEachN sums. The order of a sum depends on K
// alone: kSumCols columns one after another, then those sums in their order, as run_any() has it. So K may be cut
// between any two of those slices: where there are fewer tiles than multiprocessors a tile has several blocks, of one
// or more teams of warps with slices of their own, which hand each other their sums; each block adds up a share of the
// tile's outputs.
#pragma once

#include <algorithm>

#include "matmul/cuda/parts.cuh"
#include "matmul/cuda/sum_order.h"

namespace ingot::cuda {

struct F32Args {
  View x;
  const float* weight = nullptr;
  int64_t outputs = 0;
  PartOut out;
  int64_t rows = 0;
  int slices = 0;           // of kSumCols columns
  int each = 0;             // slices of a team: block z's teams have those from z · kTeams · each on, in turn
  float* handed = nullptr;  // kM · kN values for each tile and slice, where K is cut
};

template <int M, int N, int EachM, int EachN, int Stages, int Teams = 1>
struct F32Shape {
  static constexpr int kM = M, kN = N, kEachM = EachM, kEachN = EachN, kStages = Stages, kTeams = Teams;
  static constexpr int kThreads = kM / kEachM * (kN / kEachN);  // of a team
  static constexpr int kCols = 32;                              // of a stage
  // Eight rows lie in eight different groups of banks: a warp reads 16 bytes of four rows of x and of eight of weights.
  static constexpr int kStride = kCols + 4;
  static constexpr int kStage = (kM + kN) * kStride;  // values of a team
  static constexpr int64_t kShared = int64_t{kTeams} * kStages * kStage * 4;
  static constexpr int kWarpsN = kN / (8 * kEachN);
  static constexpr int kGroups = kM * kN / 4;  // sums in fours, as they are handed over
  static_assert(kThreads % 32 == 0 && kN % (8 * kEachN) == 0 && kM % (4 * kEachM) == 0 && kEachN % 4 == 0);
  static_assert(kSumCols % kCols == 0);
};

namespace detail {

// Rows of a matrix, 16 bytes at a time, to one stage after another.
template <class S, int Rows>
struct F32Copy {
  static constexpr int kPieces = S::kCols / 4, kStep = S::kThreads / kPieces, kCopies = (Rows + kStep - 1) / kStep;
  int thread;         // of the team
  const float* from;  // its piece of its first row
  int64_t stride;
  int rows, cols;  // that there are, from that row and piece on

  __device__ F32Copy(int of_team, const float* matrix, int64_t stride_of_row, int64_t first, int64_t all_rows,
                     int all_cols)
      : thread(of_team), stride(stride_of_row) {
    const int row = thread / kPieces, col = thread % kPieces * 4;
    from = matrix + (first + row) * stride + col;
    rows = static_cast<int>(all_rows - first < Rows ? all_rows - first : Rows) - row;
    cols = all_cols - col;
  }
  __device__ void copy(float* to, int col) const {
    to += thread / kPieces * S::kStride + thread % kPieces * 4;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (Rows % kStep != 0 && thread / kPieces + i * kStep >= Rows) break;
      const bool valid = i * kStep < rows && col < cols;
      copy_async(to + i * kStep * S::kStride, valid ? from + i * kStep * stride + col : from, valid);
    }
  }
};

// Where a thread's sums lie in the tile: rows m, m + 4, …, outputs n, n + 8, …
template <class S>
struct F32Place {
  int m, n;
  __device__ explicit F32Place(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    m = warp / S::kWarpsN * 4 * S::kEachM + lane / 8;
    n = warp % S::kWarpsN * 8 * S::kEachN + lane % 8;
  }
};

template <class S>
__device__ __forceinline__ void multiply_stage(const float* xs, const float* ws, float (&sum)[S::kEachM][S::kEachN]) {
#pragma unroll
  for (int k = 0; k < S::kCols; k += 4) {
    float4 a[S::kEachM];
#pragma unroll
    for (int i = 0; i < S::kEachM; ++i) a[i] = *reinterpret_cast<const float4*>(xs + i * 4 * S::kStride + k);
#pragma unroll
    for (int j = 0; j < S::kEachN; ++j) {
      const float4 b = *reinterpret_cast<const float4*>(ws + j * 8 * S::kStride + k);
#pragma unroll
      for (int i = 0; i < S::kEachM; ++i) sum[i][j] = __fmaf_rn(a[i].x, b.x, sum[i][j]);
#pragma unroll
      for (int i = 0; i < S::kEachM; ++i) sum[i][j] = __fmaf_rn(a[i].y, b.y, sum[i][j]);
#pragma unroll
      for (int i = 0; i < S::kEachM; ++i) sum[i][j] = __fmaf_rn(a[i].z, b.z, sum[i][j]);
#pragma unroll
      for (int i = 0; i < S::kEachM; ++i) sum[i][j] = __fmaf_rn(a[i].w, b.w, sum[i][j]);
    }
  }
}

// The sums of a slice to `to`, as all blocks of the tile find them.
template <class S>
__device__ __forceinline__ void hand_over_sums(float* to, int thread, const float (&sum)[S::kEachM][S::kEachN]) {
#pragma unroll
  for (int i = 0; i < S::kEachM; ++i)
#pragma unroll
    for (int j = 0; j < S::kEachN; j += 4)
      hand_over(to + ((i * S::kEachN + j) / 4 * S::kThreads + thread) * 4,
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
}

// This block's share of the tile's outputs: all slices of each in their order.
template <class S>
__device__ void add_slices(const F32Args& args, float* from, int64_t row0, int64_t n0) {
  constexpr int kAtOnce = 8;
  const int share = (S::kGroups + static_cast<int>(gridDim.z) - 1) / static_cast<int>(gridDim.z);
  const int first = static_cast<int>(blockIdx.z) * share, end = min(S::kGroups, first + share);
  for (int group = first + static_cast<int>(threadIdx.x); group < end; group += S::kTeams * S::kThreads) {
    float* at = from + group * 4;
    float4 total = make_float4(0, 0, 0, 0);
    const auto add = [&](const float4& v) { total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w; };
    int slice = 0;
    for (; slice + kAtOnce <= args.slices; slice += kAtOnce) {
      float* places[kAtOnce];
      float4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) places[i] = at + int64_t{slice + i} * (S::kM * S::kN);
      take_over(places, v);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) add(v[i]);
    }
    for (; slice < args.slices; ++slice) {
      float* const place[1] = {at + int64_t{slice} * (S::kM * S::kN)};
      float4 v[1];
      take_over(place, v);
      add(v[0]);
    }
    const F32Place<S> place(group % S::kThreads);
    const int of_thread = group / S::kThreads * 4, j = of_thread % S::kEachN;
    const int64_t row = row0 + place.m + of_thread / S::kEachN * 4, n = n0 + place.n + j * 8;
    if (row >= args.rows) continue;
    const float values[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
    for (int q = 0; q < 4; ++q)
      if (n + q * 8 < args.outputs) store_part(args.out, row, n + q * 8, values[q]);
  }
}

}  // namespace detail

// kCut: several teams for a tile, in blocks that are together on the device.
template <class S, bool kCut>
__global__ void __launch_bounds__(kCut ? S::kTeams* S::kThreads : S::kThreads)
    linear_f32(const __grid_constant__ F32Args args) {
  using detail::F32Copy;
  constexpr int kStep = kSumCols / S::kCols, kTeams = kCut ? S::kTeams : 1;  // stages of a slice
  const int team = static_cast<int>(threadIdx.x) / S::kThreads, thread = static_cast<int>(threadIdx.x) % S::kThreads;
  float* ring = shared_memory<float>() + team * S::kStages * S::kStage;
  const int64_t n0 = int64_t{blockIdx.x} * S::kN, row0 = int64_t{blockIdx.y} * S::kM;
  const int first_slice = static_cast<int>(blockIdx.z) * kTeams * args.each + team;
  const int stages = args.each * kStep;  // some may lie beyond K: zeros, which nobody reads
  const auto col_of = [&](int stage) {
    return (first_slice + stage / kStep * kTeams) * kSumCols + stage % kStep * S::kCols;
  };
  const F32Copy<S, S::kM> x(thread, reinterpret_cast<const float*>(args.x.data), args.x.stride, row0, args.rows,
                            args.x.cols);
  const F32Copy<S, S::kN> w(thread, args.weight, args.x.cols, n0, args.outputs, args.x.cols);
  let_next_begin();
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) w.copy(ring + s * S::kStage + S::kM * S::kStride, col_of(s));
  wait_for_inputs();
#pragma unroll
  for (int s = 0; s < S::kStages - 1; ++s) {
    x.copy(ring + s * S::kStage, col_of(s));
    commit_copies();
  }
  const detail::F32Place<S> place(thread);
  const int64_t tile = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  float* handed = args.handed + tile * args.slices * (S::kM * S::kN);
  float sum[S::kEachM][S::kEachN] = {}, total[S::kEachM][S::kEachN] = {};
  int at = 0;  // the ring's stage
  for (int stage = 0; stage < stages; ++stage) {
    copies_done<S::kStages - 2>();
    __syncthreads();
    // The stage before is free: all have multiplied it.
    const int ahead = stage + S::kStages - 1, to = at == 0 ? S::kStages - 1 : at - 1;
    if (ahead < stages) {
      x.copy(ring + to * S::kStage, col_of(ahead));
      w.copy(ring + to * S::kStage + S::kM * S::kStride, col_of(ahead));
    }
    commit_copies();
    const float* now = ring + at * S::kStage;
    detail::multiply_stage<S>(now + place.m * S::kStride, now + (S::kM + place.n) * S::kStride, sum);
    if (++at == S::kStages) at = 0;
    if ((stage + 1) % kStep != 0) continue;
    const int slice = first_slice + stage / kStep * kTeams;
    if (kCut && slice < args.slices) detail::hand_over_sums<S>(handed + int64_t{slice} * (S::kM * S::kN), thread, sum);
#pragma unroll
    for (int i = 0; i < S::kEachM; ++i)
#pragma unroll
      for (int j = 0; j < S::kEachN; ++j) {
        if (!kCut) total[i][j] += sum[i][j];
        sum[i][j] = 0;
      }
  }
  if (kCut) return detail::add_slices<S>(args, handed, row0, n0);
#pragma unroll
  for (int i = 0; i < S::kEachM; ++i) {
    const int64_t row = row0 + place.m + i * 4;
    if (row >= args.rows) break;
#pragma unroll
    for (int j = 0; j < S::kEachN; ++j)
      if (n0 + place.n + j * 8 < args.outputs) store_part(args.out, row, n0 + place.n + j * 8, total[i][j]);
  }
}

// How many blocks a tile has; 1: K is not cut.
template <class S>
int f32_cuts(int64_t rows, int64_t outputs, int slices, int multiprocessors) {
  const int64_t tiles = ceil_div(rows, S::kM) * ceil_div(outputs, S::kN);
  if (tiles * slices * S::kM * S::kN * 4 > multiprocessors * kHandedBytes) return 1;
  const int64_t most = std::min<int64_t>(ceil_div(slices, S::kTeams), multiprocessors / tiles);
  if (most < 2) return 1;
  return static_cast<int>(ceil_div(slices, ceil_div(slices, most * S::kTeams) * S::kTeams));
}

template <class S>
void launch_f32(F32Args args, const DeviceCtx& ctx) {
  args.slices = static_cast<int>(ceil_div(args.x.cols, kSumCols));
  args.handed = ctx.handed;
  const int cuts = f32_cuts<S>(args.rows, args.outputs, args.slices, ctx.multiprocessors);
  const bool cut = cuts > 1;
  args.each = static_cast<int>(ceil_div(args.slices, cut ? cuts * S::kTeams : 1));
  const dim3 grid(ceil_div(args.outputs, S::kN), ceil_div(args.rows, S::kM), static_cast<unsigned>(cuts));
  if (cut) {
    launch(ctx, linear_f32<S, true>, {grid, dim3(S::kTeams * S::kThreads), S::kShared, true}, args);
  } else {
    launch(ctx, linear_f32<S, false>, {grid, dim3(S::kThreads), S::kShared / S::kTeams}, args);
  }
}

}  // namespace ingot::cuda
