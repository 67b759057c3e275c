// What a block of the split kernel has to do and what becomes of its results: those of its groups of warps meet in
// shared memory, those of several splits in memory, where the last block to arrive merges them in order.
#pragma once

#include <type_traits>

#include "ops/attention/cuda/attention_cuda_codes.cuh"

namespace ingot::cuda {

inline constexpr int kGroups = 4;

// kWide: two warps to a group, 32 packed rows. kBulk: each tile is two copies by TMA; else cp.async.
template <DType kType_, int kDim_, bool kWide_, bool kBulk_>
struct SplitShape {
  static constexpr DType kType = kType_;
  static constexpr bool kScaled = kType == DType::kQ8_0, kBf16 = kType == DType::kBF16, kCoded = kv_is_coded(kType),
                        kWide = kWide_, kBulk = kBulk_;
  static constexpr int kDim = kDim_;
  using Rows = TileRows<kDim>;  // of queries
  using KvRows = std::conditional_t<kCoded, CodeRows<kDim>, TileRows<kDim>>;

  static constexpr int kGroupWarps = kWide ? 2 : 1;
  static constexpr int kThreads = 32 * kGroups * kGroupWarps;
  static constexpr int kPacked = 16 * kGroupWarps;
  // Of a multiprocessor, as the compiler is told; 0: its own choice, which for codes of heads of 64 is registers too
  // few.
  static constexpr int kLeastBlocks = kCoded && kDim == 64 && !kWide ? 2 : 0;
  // By TMA: with a head of 128, 8 KiB a tile and 24 KiB a group are in flight, 96 KiB of a block and two
  // blocks of a multiprocessor, where the memory's latency at full speed needs about 30 KiB. Without it a block has to
  // fit into the 99 KiB of the smaller devices. Tiles of codes are half as large.
  static constexpr int kStages = kCoded        ? (kDim == 256 ? (kBulk ? 4 : 2)
                                                  : kBulk     ? (kScaled ? 5 : 6)
                                                              : 4)
                                 : kDim == 64  ? 4
                                 : kDim == 96  ? 3
                                 : kDim == 128 ? (kBulk ? 3 : 2)
                                               : (kBulk ? 2 : 1);
  static constexpr int kRowBytes = kDim * kv_element_bytes(kType);  // in the cache
  static constexpr int kTileBytes = kTileKeys * KvRows::kStride;    // of keys, and again of values
  // Of their scales, behind both, and again of the values'.
  static constexpr int kScaleBytes = kScaled ? kTileKeys * (kDim / kQ8Block) * 2 : 0;
  static constexpr int kStageBytes = 2 * (kTileBytes + kScaleBytes);
  static constexpr int kOutStride = kDim + 8;  // floats: two rows that meet in a bank are 4 apart
  static constexpr int kOutBytes = kPacked * kOutStride * 4;
  // Of a group; its results take the place of its ring.
  static constexpr int kRingBytes = kStages * kStageBytes > kOutBytes ? kStages* kStageBytes : kOutBytes;

  static constexpr int kQueries = 0;  // where what lies in shared memory
  static constexpr int kRing = kQueries + kPacked * Rows::kStride;
  static constexpr int kBarriers = kRing + kGroups * kRingBytes;
  static constexpr int kTops = kBarriers + kGroups * kStages * static_cast<int>(sizeof(CopyBarrier));
  static constexpr int kSums = kTops + kGroups * kPacked * 4;
  static constexpr int kFlag = kSums + kGroups * kPacked * 4;
  static constexpr int kTotal = kFlag + 16;  // in fold mode: top and sum of each row, then the rows
  static constexpr int kBytes = kTotal;
  static constexpr int kFoldBytes = kTotal + kPacked * (kDim + 2) * 4;
  static_assert(kBulk || kFoldBytes <= 99 << 10);
};

// Steps of each block of a cluster from which on its split is cut where there are several seqs: with 1, eight of 576
// keys took 23 us in place of 14. (One seq of 2048: 12.6 with 1, 15.2 with 2.)
inline constexpr int kClusterSteps = 2;

// What a block has to do.
struct SplitItem {
  int seq, kv_head, q_begin;
  int split, n_splits;
  int64_t part;              // where split 0 leaves its results
  int past;                  // positions in front of this step's rows
  int first, end;            // packed rows [first, end) of the seq
  int keys_begin, keys_end;  // positions that any of them sees; begin is a multiple of the step
  int split_begin;           // of split 0
  int split_keys;

  // False where there is nothing to do.
  __device__ bool find(const AttentionArgs& a, int packed_rows) {
    kv_head = static_cast<int>(blockIdx.y) / a.tiles;
    // Those with the most keys first.
    first = (a.tiles - 1 - static_cast<int>(blockIdx.y) % a.tiles) * packed_rows;
    seq = static_cast<int>(blockIdx.z);
    split = static_cast<int>(blockIdx.x) >> a.cluster_bits;
    part = (static_cast<int64_t>(seq) * gridDim.y + blockIdx.y) * a.splits;
    if (a.resident != 0 && !find_seq(a)) return false;
    q_begin = a.q_start[seq];
    const int rows = a.q_start[seq + 1] - q_begin;
    past = a.kv_len[seq] - rows;
    end = rows * a.group;
    if (first >= end || end < a.least_packed || end > a.most_packed) return false;
    end = min(end, first + packed_rows);
    keys_end = past + (end - 1) / a.group + 1;
    keys_begin = first_key(a, past + first / a.group);
    if (a.resident == 0) cut(a);
    return split < n_splits;
  }

 private:
  // The first key that a row at this position sees, rounded down to a multiple of the step.
  __device__ static int first_key(const AttentionArgs& a, int position) {
    return a.window > 0 ? max(0, position - a.window + 1) / kSplitStep * kSplitStep : 0;
  }
  __device__ void cut(const AttentionArgs& a) {
    if (a.split_keys != 0) {
      split_keys = a.split_keys;
      split_begin = keys_begin / split_keys * split_keys;
    } else {
      const int keys = keys_end - keys_begin;
      int splits = keys < a.splits * kLongSplit ? a.few_splits : a.splits;
      if (a.cluster_bits > 0) splits = min(splits, static_cast<int>(ceil_div(keys, kSplitStep << a.cluster_bits)));
      split_keys = static_cast<int>(ceil_div(ceil_div(keys, splits), kSplitStep)) * kSplitStep;
      split_begin = keys_begin;
    }
    n_splits = static_cast<int>(ceil_div(keys_end - split_begin, split_keys));
  }
  // Steps of a split at least: clusters meet faster than splits do.
  __device__ static int least_share(const AttentionArgs& a) {
    return a.cluster_bits > 0 ? kClusterSteps << a.cluster_bits : 1;
  }
  // Steps over the keys of a seq; 0 where it is not this launch's. Without a branch around its loads, so that those of
  // several seqs are in flight together.
  __device__ static int steps_of(const AttentionArgs& a, int s) {
    const int at = min(s, a.seqs - 1);
    const int rows = a.q_start[at + 1] - a.q_start[at], length = a.kv_len[at], packed = rows * a.group;
    const int steps = (length - first_key(a, length - rows) + kSplitStep - 1) / kSplitStep;
    return s < a.seqs && packed >= a.least_packed && packed <= a.most_packed ? steps : 0;
  }
  // The seq and split of a block where seqs have as many splits as their lengths ask for: none is longer than an equal
  // share of all keys for each block that the device runs at a time. By every warp, its lanes over the seqs.
  __device__ bool find_seq(const AttentionArgs& a) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int all = 0;
    for (int base = 0; base < a.seqs; base += 4 * 32) {
#pragma unroll
      for (int i = 0; i < 4; ++i) all += steps_of(a, base + 32 * i + lane);
    }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) all += __shfl_xor_sync(0xffffffffu, all, d);
    const int share =
        max(least_share(a), static_cast<int>(ceil_div(static_cast<int64_t>(all) * gridDim.y, a.resident)));
    int index = static_cast<int>(blockIdx.x) >> a.cluster_bits;
    for (int base = 0; base < a.seqs; base += 32) {
      const int steps = steps_of(a, base + lane), mine = static_cast<int>(ceil_div(steps, share));
      int through = mine;  // of this lane's seq and those of lanes before it
#pragma unroll
      for (int d = 1; d < 32; d <<= 1) {
        const int other = __shfl_up_sync(0xffffffffu, through, d);
        if (lane >= d) through += other;
      }
      const unsigned found = __ballot_sync(0xffffffffu, index < through);
      if (found == 0) {
        index -= __shfl_sync(0xffffffffu, through, 31);
        continue;
      }
      const int source = __ffs(static_cast<int>(found)) - 1;
      seq = base + source;
      n_splits = __shfl_sync(0xffffffffu, mine, source);
      split = index - (__shfl_sync(0xffffffffu, through, source) - n_splits);
      part = static_cast<int64_t>(blockIdx.y) * (gridDim.x >> a.cluster_bits) + (blockIdx.x >> a.cluster_bits) - split;
      split_keys = static_cast<int>(ceil_div(__shfl_sync(0xffffffffu, steps, source), n_splits)) * kSplitStep;
      n_splits = static_cast<int>(ceil_div(__shfl_sync(0xffffffffu, steps, source), split_keys / kSplitStep));
      const int rows = a.q_start[seq + 1] - a.q_start[seq];
      split_begin = first_key(a, a.kv_len[seq] - rows);
      return true;
    }
    return false;
  }
};

// Queries over a latent: each lane finds one packed row of the item, `row`, so that no division is in a loop.
struct LatentQueries {
  const std::byte* at;  // null: padding

  __device__ LatentQueries(const AttentionArgs& a, const SplitItem& item, int row) {
    const int packed = item.first + row, of = packed / a.group;
    const int64_t column = static_cast<int64_t>(packed - of * a.group) * a.q_dim;
    at = packed < item.end ? a.q.row(item.q_begin + of) + column * (a.q.dtype == DType::kF32 ? 4 : 2) : nullptr;
  }
  // By a whole warp.
  __device__ const std::byte* of_lane(int lane) const {
    return reinterpret_cast<const std::byte*>(
        __shfl_sync(0xffffffffu, static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(at)), lane));
  }
  // f(piece, where) for this lane's pieces of eight values of a row at `from`; some address where that is null.
  template <class S, class F>
  __device__ static void each_piece(const AttentionArgs& a, const std::byte* from, int lane, const F& f) {
    const std::byte* base = from != nullptr ? from : a.q.data;
    const int bytes = a.q.dtype == DType::kF32 ? 32 : 16;
#pragma unroll
    for (int piece = 0; piece < (S::kRank + S::kRope) / 8; piece += 32) {
      const int mine = piece + lane;
      if (mine < (S::kRank + S::kRope) / 8) f(mine, base + (from != nullptr ? mine * bytes : 0));
    }
  }
};

// One float4 of a packed row's result to its place in the output.
__device__ inline void store_result(const AttentionArgs& a, const SplitItem& item, int packed, int column, float4 x,
                                    float factor) {
  const int head = item.kv_head * a.group + packed % a.group;
  std::byte* row = a.out.row(item.q_begin + packed / a.group);
  const int64_t at = static_cast<int64_t>(head) * a.kv.v_dim + column;
  x = make_float4(x.x * factor, x.y * factor, x.z * factor, x.w * factor);
  if (a.out.dtype == DType::kF32) {
    *reinterpret_cast<float4*>(row + at * 4) = x;
  } else if (a.out.dtype == DType::kBF16) {
    *reinterpret_cast<uint2*>(row + at * 2) = make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
  } else {
    *reinterpret_cast<uint2*>(row + at * 2) = make_uint2(pack_f16(x.x, x.y), pack_f16(x.z, x.w));
  }
}

// The results of a split's groups, met in shared memory: thread i has columns 4 (i % 8) + 32j of packed row i / 8.
template <int kDim>
struct SplitResult {
  float top, sum;
  float4 x[kDim / 32];
};

__device__ inline float4 merge4(const Merge& merge, float4 old_x, float4 new_x) {
  return make_float4(merge(old_x.x, new_x.x), merge(old_x.y, new_x.y), merge(old_x.z, new_x.z),
                     merge(old_x.w, new_x.w));
}

// Every warp of the block calls it when its ring is empty.
template <class S>
__device__ void meet_groups(const WarpRows<S::kDim, 1>& rows, SplitResult<S::kDim>& result, std::byte* shared,
                            int group, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  float* tops = reinterpret_cast<float*>(shared + S::kTops);
  float* sums = reinterpret_cast<float*>(shared + S::kSums);
  const auto outs = [&](int of) { return reinterpret_cast<float*>(shared + S::kRing + of * S::kRingBytes); };
  if constexpr (S::kWide) __syncthreads();  // the group's other warp may still read the ring
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = 16 * warp + 8 * h + g;
    float sum = rows.sum[0][h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (t == 0) {
      tops[group * S::kPacked + row] = rows.top[0][h];
      sums[group * S::kPacked + row] = sum;
    }
    if constexpr (S::kCoded) {
      float* out = outs(group) + row * S::kOutStride + 4 * t;
#pragma unroll
      for (int n = 0; n < S::kDim / 8; n += 2) {
        const float(&even)[4] = rows.out[0][n];
        const float(&odd)[4] = rows.out[0][n + 1];
        *reinterpret_cast<float4*>(out + 8 * n) = make_float4(even[2 * h], odd[2 * h], even[2 * h + 1], odd[2 * h + 1]);
      }
    } else {
      float* out = outs(group) + row * S::kOutStride + 2 * t;
#pragma unroll
      for (int n = 0; n < S::kDim / 8; ++n)
        *reinterpret_cast<float2*>(out + 8 * n) = make_float2(rows.out[0][n][2 * h], rows.out[0][n][2 * h + 1]);
    }
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 4;
  result.top = -INFINITY;
#pragma unroll
  for (int w = 0; w < kGroups; ++w) result.top = fmaxf(result.top, tops[w * S::kPacked + row]);
  const float base = result.top == -INFINITY ? 0.0f : result.top;
  result.sum = 0;
#pragma unroll
  for (int j = 0; j < S::kDim / 32; ++j) result.x[j] = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int w = 0; w < kGroups; ++w) {
    const float factor = fast_exp2(tops[w * S::kPacked + row] - base);
    result.sum = fmaf(sums[w * S::kPacked + row], factor, result.sum);
    const float* from = outs(w) + row * S::kOutStride + column;
#pragma unroll
    for (int j = 0; j < S::kDim / 32; ++j) {
      const float4 y = *reinterpret_cast<const float4*>(from + 32 * j);
      float4& x = result.x[j];
      x = make_float4(fmaf(y.x, factor, x.x), fmaf(y.y, factor, x.y), fmaf(y.z, factor, x.z), fmaf(y.w, factor, x.w));
    }
  }
}

// The results of one split: rows of floats, then their tops, then their sums.
struct Part {
  float *x, *tops, *sums;
  __device__ Part(const AttentionArgs& a, int packed_rows, int dim, int64_t index) {
    x = a.parts + index * part_floats(packed_rows, dim);
    tops = x + static_cast<int64_t>(packed_rows) * dim;
    sums = tops + packed_rows;
  }
};

// All splits of rows [begin, begin + count) of the item are written: merged in their order, each thread some float4.
template <class S>
__device__ void merge_parts(const AttentionArgs& a, const SplitItem& item, int begin, int count) {
  constexpr int kQuads = S::kDim / 4;
  for (int i = static_cast<int>(threadIdx.x); i < count * kQuads; i += S::kThreads) {
    const int row = begin + i / kQuads, column = i % kQuads * 4;
    float top = -INFINITY, sum = 0;
    float4 x = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int split = 0; split < item.n_splits; ++split) {
      const Part part(a, S::kPacked, S::kDim, item.part + split);
      const Merge merge(top, load_fresh(part.tops + row));
      sum = merge(sum, load_fresh(part.sums + row));
      x = merge4(merge, x, load_fresh4(part.x + row * S::kDim + column));
      top = merge.top;
    }
    const int packed = item.first + row;
    store_result(a, item, packed, column, x, last_factor(a, item.kv_head * a.group + packed % a.group, top, sum));
  }
}

// By all threads of a block that has left its results: whether it is the last of `blocks` to do so, and then sees what
// the others left. `flag`: in shared memory.
__device__ inline bool last_to_arrive(uint32_t* ticket, int blocks, uint32_t* flag) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    *flag = atomicAdd(ticket, 1u) + 1 == static_cast<uint32_t>(blocks) ? 1 : 0;
    if (*flag != 0) *ticket = 0;
  }
  __syncthreads();
  if (*flag == 0) return false;
  __threadfence();
  return true;
}

// This split's results to where the last block finds them; that block merges.
template <class S>
__device__ void leave_part(const AttentionArgs& a, const SplitItem& item, const SplitResult<S::kDim>& result,
                           std::byte* shared) {
  const int row = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 4;
  uint32_t* ticket = a.tickets + static_cast<int64_t>(item.seq) * gridDim.y + blockIdx.y;
  if (item.first + row < item.end) {
    const Part part(a, S::kPacked, S::kDim, item.part + item.split);
#pragma unroll
    for (int j = 0; j < S::kDim / 32; ++j)
      *reinterpret_cast<float4*>(part.x + row * S::kDim + column + 32 * j) = result.x[j];
    if (column == 0) {
      part.tops[row] = result.top;
      part.sums[row] = result.sum;
    }
  }
  if (last_to_arrive(ticket, item.n_splits, reinterpret_cast<uint32_t*>(shared + S::kFlag)))
    merge_parts<S>(a, item, 0, item.end - item.first);
}

// In fold mode: merges a split into what the splits before it gave, which lies in shared memory.
template <class S>
__device__ void fold_result(SplitResult<S::kDim>& result, std::byte* shared, bool first) {
  const int row = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 4;
  float* total = reinterpret_cast<float*>(shared + S::kTotal);  // touched by this thread alone, but for top and sum
  float* x = total + 2 * S::kPacked + row * S::kDim + column;
  const float top = first ? -INFINITY : total[2 * row], sum = first ? 0.0f : total[2 * row + 1];
  const Merge merge(top, result.top);
  result.top = merge.top;
  result.sum = merge(sum, result.sum);
#pragma unroll
  for (int j = 0; j < S::kDim / 32; ++j) {
    const float4 old = first ? make_float4(0, 0, 0, 0) : *reinterpret_cast<const float4*>(x + 32 * j);
    result.x[j] = merge4(merge, old, result.x[j]);
    *reinterpret_cast<float4*>(x + 32 * j) = result.x[j];
  }
  __syncwarp();  // all eight threads of the row have read
  if (column == 0) {
    total[2 * row] = result.top;
    total[2 * row + 1] = result.sum;
  }
  // The next split's copies overwrite what was written here by ordinary stores.
  barrier_inits_done();
  __syncthreads();
}

}  // namespace ingot::cuda
