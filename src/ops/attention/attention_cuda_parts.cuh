// What becomes of the results of a segment: those of a block's groups of warps meet in shared memory, those of several
// segments of a unit in memory, where the last block to arrive merges them in order.
#pragma once

#include "ops/attention/attention_cuda_work.cuh"

namespace ingot::cuda {

// Of a block, in shared memory: the one in work, the one before and two after it.
inline constexpr int kKeptSegments = 4;

// kWide: two warps to a group, 32 packed rows. kBulk: each tile is two copies by the copy engine; else cp.async.
template <bool kBf16_, int kDim_, bool kWide_, bool kBulk_>
struct SplitShape {
  static constexpr bool kBf16 = kBf16_, kWide = kWide_, kBulk = kBulk_;
  static constexpr int kDim = kDim_;
  using Rows = TileRows<kDim>;

  static constexpr int kGroupWarps = kWide ? 2 : 1;
  static constexpr int kThreads = 32 * kGroups * kGroupWarps;
  static constexpr int kPacked = 16 * kGroupWarps;
  // By the copy engine: with a head of 128, 8 KiB a tile and 24 KiB a group are on their way, 96 KiB of a block and two
  // blocks of a multiprocessor, where the memory's latency at full speed needs about 30 KiB. Without it a block has to
  // fit into the 99 KiB of the smaller devices.
  static constexpr int kStages = kDim == 64 ? 4 : kDim == 96 ? 3 : kDim == 128 ? (kBulk ? 3 : 2) : (kBulk ? 2 : 1);
  static constexpr int kTileBytes = kTileKeys * Rows::kStride;  // of keys, and again of values
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;  // of a group
  // A warp's results take the place of one tile: so many stages wait for the end of a segment.
  static constexpr int kResultStages = kGroupWarps;
  static constexpr int kQuads = kDim / 32;  // of a thread's results
  static_assert(kStages >= kResultStages && kStageBytes >= 16 * kDim * 4);

  static constexpr int kQueries = 0;  // where what lies in shared memory
  static constexpr int kRing = kQueries + kPacked * Rows::kStride;
  static constexpr int kBarriers = kRing + kGroups * kRingBytes;
  static constexpr int kTops = kBarriers + kGroups * kStages * static_cast<int>(sizeof(CopyBarrier));
  static constexpr int kSums = kTops + kGroups * kPacked * 4;
  static constexpr int kFlag = kSums + kGroups * kPacked * 4;
  static constexpr int kList = kFlag + 16;
  static constexpr int kSegments = kList + 64;
  static constexpr int kTotal = kSegments + kKeptSegments * 64;  // in fold mode: results of each thread, top and sum
  static constexpr int kBytes = kTotal;
  static constexpr int kFoldBytes = kTotal + kThreads * kQuads * 16 + kGroups * kPacked * 8;
  static_assert(sizeof(SplitList) <= 64 && sizeof(SplitSegment) <= 64);
  static_assert(kBulk || kFoldBytes <= 99 << 10);
};

// A thread's share of the results of a segment: rows g and g + 8 of its warp's, and of every eight columns n, with n /
// kQuads its group, the columns 2t and 2t + 1 of row g, then of row g + 8 (lane = 4g + t): as the matrix instructions
// leave them.
template <class S>
struct SplitResult {
  float top[2], sum[2];
  float4 x[S::kQuads];
};

template <class S>
struct SplitThread {
  int group, warp, lane;
  __device__ SplitThread() {
    const int w = static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    group = w / S::kGroupWarps;
    warp = w % S::kGroupWarps;
  }
  __device__ int row(int h) const { return 16 * warp + 8 * h + lane / 4; }  // of the packed rows of the block
  __device__ int eight(int j) const { return group * S::kQuads + j; }       // columns of x[j], in eights
};

__device__ inline float4 merge4(const Merge& low, const Merge& high, float4 old_x, float4 new_x) {
  return make_float4(low(old_x.x, new_x.x), low(old_x.y, new_x.y), high(old_x.z, new_x.z), high(old_x.w, new_x.w));
}

// The results of rows `row` and row + 8 of a unit to their places in the output.
template <class S>
struct SplitOut {
  const AttentionArgs& a;
  int head[2];
  std::byte* at[2];  // null: no such row
  float factor[2];

  __device__ SplitOut(const AttentionArgs& args, const SplitSegment& s, int row, const float (&top)[2],
                      const float (&sum)[2])
      : a(args) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int packed = s.first + row + 8 * h;
      head[h] = s.kv_head * a.group + packed % a.group;
      at[h] = packed < s.end ? a.out.row(s.q_begin + packed / a.group) : nullptr;
      factor[h] = packed < s.end ? last_factor(a, head[h], top[h], sum[h]) : 0.0f;
    }
  }
  // Columns 8 · eight + 2t and the next one.
  __device__ void store(int eight, int t, float4 x) const {
    store_two(0, 8 * eight + 2 * t, x.x * factor[0], x.y * factor[0]);
    store_two(1, 8 * eight + 2 * t, x.z * factor[1], x.w * factor[1]);
  }

 private:
  __device__ void store_two(int h, int column, float x, float y) const {
    if (at[h] == nullptr) return;
    const int64_t i = static_cast<int64_t>(head[h]) * S::kDim + column;
    if (a.out.dtype == DType::kF32) {
      *reinterpret_cast<float2*>(at[h] + i * 4) = make_float2(x, y);
    } else {
      *reinterpret_cast<uint32_t*>(at[h] + i * 2) = a.out.dtype == DType::kBF16 ? pack_bf16(x, y) : pack_f16(x, y);
    }
  }
};

template <class S>
__device__ void store_result(const AttentionArgs& a, const SplitSegment& s, const SplitThread<S>& me,
                             const SplitResult<S>& result) {
  const SplitOut<S> out(a, s, me.row(0), result.top, result.sum);
#pragma unroll
  for (int j = 0; j < S::kQuads; ++j) out.store(me.eight(j), me.lane % 4, result.x[j]);
}

// Every warp of the block calls it when its last tile is done. place(group, warp): a stage of the ring that is free.
template <class S, class F>
__device__ void meet_groups(const WarpRows<S::kDim, 1>& rows, SplitResult<S>& result, const SplitThread<S>& me,
                            std::byte* shared, F&& place) {
  float* tops = reinterpret_cast<float*>(shared + S::kTops);
  float* sums = reinterpret_cast<float*>(shared + S::kSums);
  float4* mine = reinterpret_cast<float4*>(place(me.group, me.warp)) + me.lane;
#pragma unroll
  for (int n = 0; n < S::kDim / 8; ++n)
    mine[32 * n] = make_float4(rows.out[0][n][0], rows.out[0][n][1], rows.out[0][n][2], rows.out[0][n][3]);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = rows.sum[0][h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (me.lane % 4 == 0) {
      tops[me.group * S::kPacked + me.row(h)] = rows.top[0][h];
      sums[me.group * S::kPacked + me.row(h)] = sum;
    }
  }
  __syncthreads();
  float factors[kGroups][2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = -INFINITY, sum = 0;
#pragma unroll
    for (int w = 0; w < kGroups; ++w) top = fmaxf(top, tops[w * S::kPacked + me.row(h)]);
    const float base = top == -INFINITY ? 0.0f : top;
#pragma unroll
    for (int w = 0; w < kGroups; ++w) {
      factors[w][h] = fast_exp2(tops[w * S::kPacked + me.row(h)] - base);
      sum = fmaf(sums[w * S::kPacked + me.row(h)], factors[w][h], sum);
    }
    result.top[h] = top;
    result.sum[h] = sum;
  }
#pragma unroll
  for (int j = 0; j < S::kQuads; ++j) result.x[j] = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int w = 0; w < kGroups; ++w) {
    const float low = factors[w][0], high = factors[w][1];
    const float4* from = reinterpret_cast<const float4*>(place(w, me.warp)) + me.lane;
#pragma unroll
    for (int j = 0; j < S::kQuads; ++j) {
      const float4 y = from[32 * me.eight(j)];
      float4& x = result.x[j];
      x = make_float4(fmaf(y.x, low, x.x), fmaf(y.y, low, x.y), fmaf(y.z, high, x.z), fmaf(y.w, high, x.w));
    }
  }
}

// The results of one segment in memory: those of each warp and eight columns as its lanes have them; then the rows'
// tops and sums.
template <class S>
struct Part {
  float *x, *tops, *sums;
  __device__ Part(const AttentionArgs& a, int index) {
    x = a.parts + index * part_floats(S::kPacked, S::kDim);
    tops = x + S::kPacked * S::kDim;
    sums = tops + S::kPacked;
  }
  __device__ float* quad(const SplitThread<S>& me, int j) const {
    return x + ((me.warp * (S::kDim / 8) + me.eight(j)) * 32 + me.lane) * 4;
  }
};

// All segments of a unit are written: merged in their order, by each thread its share.
template <class S>
__device__ void merge_parts(const AttentionArgs& a, const SplitSegment& s, const SplitThread<S>& me) {
  if (s.first + me.row(0) >= s.end) return;
  SplitResult<S> all;
  all.top[0] = all.top[1] = -INFINITY;
  all.sum[0] = all.sum[1] = 0;
#pragma unroll
  for (int j = 0; j < S::kQuads; ++j) all.x[j] = make_float4(0, 0, 0, 0);
#pragma unroll 4
  for (int split = 0; split < s.n_splits; ++split) {
    const Part<S> part(a, s.part_of(split));
    const Merge low(all.top[0], load_fresh(part.tops + me.row(0))), high(all.top[1], load_fresh(part.tops + me.row(1)));
    all.sum[0] = low(all.sum[0], load_fresh(part.sums + me.row(0)));
    all.sum[1] = high(all.sum[1], load_fresh(part.sums + me.row(1)));
#pragma unroll
    for (int j = 0; j < S::kQuads; ++j) all.x[j] = merge4(low, high, all.x[j], load_fresh4(part.quad(me, j)));
    all.top[0] = low.top;
    all.top[1] = high.top;
  }
  store_result<S>(a, s, me, all);
}

// The part is written, and all of the block's threads know: the last block to come here merges all parts.
template <class S>
__device__ void part_is_left(const AttentionArgs& a, const SplitSegment& s, const SplitThread<S>& me,
                             std::byte* shared) {
  uint32_t* flag = reinterpret_cast<uint32_t*>(shared + S::kFlag);
  if (threadIdx.x == 0) {
    uint32_t* ticket = a.tickets + s.ticket;
    __threadfence();
    const bool last = atomicAdd(ticket, 1u) + 1 == static_cast<uint32_t>(s.n_splits);
    __threadfence();
    if (last) *ticket = 0;
    *flag = last ? 1 : 0;
  }
  __syncthreads();
  if (*flag != 0) merge_parts<S>(a, s, me);
}

// This segment's results to where the last block finds them; that block merges.
template <class S>
__device__ void leave_part(const AttentionArgs& a, const SplitSegment& s, const SplitThread<S>& me,
                           const SplitResult<S>& result, std::byte* shared) {
  if (s.first + me.row(0) < s.end) {
    const Part<S> part(a, s.part_of(s.split));
#pragma unroll
    for (int j = 0; j < S::kQuads; ++j) *reinterpret_cast<float4*>(part.quad(me, j)) = result.x[j];
    if (me.group == 0 && me.lane % 4 == 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        part.tops[me.row(h)] = result.top[h];
        part.sums[me.row(h)] = result.sum[h];
      }
    }
  }
  // One fence for the whole block: the barrier passes on what it stands for.
  __syncthreads();
  part_is_left<S>(a, s, me, shared);
}

// In a cluster: the results of its blocks, in their order, are one part. Each block merges as many of the columns.
template <class S>
__device__ void merge_cluster(const AttentionArgs& a, const SplitSegment& s, const SplitThread<S>& me,
                              const SplitResult<S>& result, std::byte* shared) {
  // In place of the ring, which is done with: as a part in memory.
  float4* quads = reinterpret_cast<float4*>(shared + S::kRing);
  float* tops = reinterpret_cast<float*>(shared + S::kTops);
  float* sums = reinterpret_cast<float*>(shared + S::kSums);
  constexpr int kEights = S::kDim / 8;
#pragma unroll
  for (int j = 0; j < S::kQuads; ++j) quads[(me.warp * kEights + me.eight(j)) * 32 + me.lane] = result.x[j];
  if (me.group == 0 && me.lane % 4 == 0) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      tops[me.row(h)] = result.top[h];
      sums[me.row(h)] = result.sum[h];
    }
  }
  sync_cluster();
  constexpr int kShare = S::kPacked * S::kDim / 4 / kClusterBlocks;
  const int rank = static_cast<int>(blockIdx.x) % kClusterBlocks;
  for (int i = rank * kShare + static_cast<int>(threadIdx.x); i < (rank + 1) * kShare; i += S::kThreads) {
    const int lane = i % 32, eight = i / 32 % kEights, row = i / (32 * kEights) * 16 + lane / 4;
    if (s.first + row >= s.end) continue;
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    float4 x = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int r = 0; r < kClusterBlocks; ++r) {
      const Merge low(top[0], load_other(tops + row, r)), high(top[1], load_other(tops + row + 8, r));
      sum[0] = low(sum[0], load_other(sums + row, r));
      sum[1] = high(sum[1], load_other(sums + row + 8, r));
      x = merge4(low, high, x, load_other4(quads + i, r));
      top[0] = low.top;
      top[1] = high.top;
    }
    if (s.n_splits == 1) {
      SplitOut<S>(a, s, row, top, sum).store(eight, lane % 4, x);
    } else {
      const Part<S> part(a, s.part_of(s.split));
      reinterpret_cast<float4*>(part.x)[i] = x;
      if (eight == 0 && lane % 4 == 0) {
        part.tops[row] = top[0], part.tops[row + 8] = top[1];
        part.sums[row] = sum[0], part.sums[row + 8] = sum[1];
      }
    }
  }
  sync_cluster();  // nobody leaves while its memory is read
  if (s.n_splits > 1 && rank == 0) part_is_left<S>(a, s, me, shared);
}

// In fold mode: merges a segment into what those before it gave, which lies in shared memory.
template <class S>
__device__ void fold_result(SplitResult<S>& result, const SplitThread<S>& me, std::byte* shared, bool first) {
  float4* x = reinterpret_cast<float4*>(shared + S::kTotal) + threadIdx.x;  // touched by this thread alone
  float2* rows = reinterpret_cast<float2*>(shared + S::kTotal + S::kThreads * S::kQuads * 16) + me.group * S::kPacked;
  const float2 low_row = first ? make_float2(-INFINITY, 0) : rows[me.row(0)];
  const float2 high_row = first ? make_float2(-INFINITY, 0) : rows[me.row(1)];
  const Merge low(low_row.x, result.top[0]), high(high_row.x, result.top[1]);
  result.top[0] = low.top;
  result.top[1] = high.top;
  result.sum[0] = low(low_row.y, result.sum[0]);
  result.sum[1] = high(high_row.y, result.sum[1]);
#pragma unroll
  for (int j = 0; j < S::kQuads; ++j) {
    const float4 old = first ? make_float4(0, 0, 0, 0) : x[S::kThreads * j];
    result.x[j] = merge4(low, high, old, result.x[j]);
    x[S::kThreads * j] = result.x[j];
  }
  __syncwarp();  // the other lanes of the rows have read
  if (me.lane % 4 == 0) {
    rows[me.row(0)] = make_float2(result.top[0], result.sum[0]);
    rows[me.row(1)] = make_float2(result.top[1], result.sum[1]);
  }
  __syncwarp();
}

}  // namespace ingot::cuda
