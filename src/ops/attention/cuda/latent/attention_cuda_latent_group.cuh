// Attention of many rows over a latent cache by warpgroups, compute capability 9.0 alone: 64 packed rows of a seq,
// whose keys come 64 at a time, the next ones on their way. Two warpgroups score half of the keys each, then, when all
// weights are in shared memory, each adds up half of the columns: the sums of 64 rows by 512 columns fill both groups'
// registers. Caches of 16 bits with a rotary part of 64.
#pragma once

#include "cuda/wgmma.cuh"
#include "ops/attention/cuda/attention_cuda_parts.cuh"

namespace ingot::cuda {

template <DType kType_, int kRank_>
struct LatentGroupShape {
  static constexpr DType kType = kType_;
  static constexpr bool kBf16 = kType == DType::kBF16;
  static constexpr int kRank = kRank_, kRope = 64, kDim = kRank;
  static constexpr int kThreads = 2 * 128, kPacked = kWideLatentRows, kKeys = kSplitStep;
  static constexpr int kSideKeys = kKeys / 2, kSideCols = kRank / 2;
  // Matrices lie in panels of 64 columns (MatrixPlace), the rotary part in the last one. A product has 128 columns.
  static constexpr int kPanels = kRank / 64 + 1, kPanel = 64 * 128, kProducts = kSideCols / 128;

  static constexpr int kQueries = 0;  // where what lies in shared memory
  static constexpr int kRing = kPanels * kPanel, kStageBytes = kPanels * kPanel;
  static constexpr int kWeights = kRing + 2 * kStageBytes;
  static constexpr int kTops = kWeights + kPanel;  // [side][row]
  static constexpr int kSums = kTops + 2 * kPacked * 4;
  static constexpr int kFlag = kSums + 2 * kPacked * 4;
  static constexpr int kBytes = kFlag + 16;
  static_assert(kPacked == 64 && kKeys == 64 && kBytes <= 227 << 10);
};

// Where piece `piece` of 16 bytes of row `row` lies in panels.
__device__ inline int latent_panel_piece(int row, int piece) {
  return piece / 8 * (64 * 128) + row * 128 + kv_piece(row, piece % 8) * 16;
}

// The packed rows [first, first + 64) of a seq on their way into panels, a row for each warp in turn; zeros from `end`
// on.
template <class S>
__device__ void copy_latent_queries(const AttentionArgs& a, std::byte* to, const SplitItem& item) {
  constexpr int kWarps = S::kThreads / 32, kRows = S::kPacked / kWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const LatentQueries rows(a, item, warp + lane % kRows * kWarps);
#pragma unroll 4
  for (int i = 0; i < kRows; ++i) {
    const int row = warp + i * kWarps;
    const std::byte* from = rows.of_lane(i);
    rows.each_piece<S>(a, from, lane, [&](int piece, const std::byte* at) {
      std::byte* place = to + latent_panel_piece(row, piece);
      if (a.q.dtype == S::kType) {
        copy_async(place, at, from != nullptr);
      } else {
        *reinterpret_cast<uint4*>(place) =
            from != nullptr ? narrow_eight<S::kBf16>(at, a.q.dtype) : make_uint4(0, 0, 0, 0);
      }
    });
  }
}

// The keys from position `first` on, a row for each warp in turn; zeros from `end` on. Rows of the cache are permuted
// as those of a panel: `first` is a multiple of 64.
template <class S>
__device__ void copy_latents(const AttentionArgs& a, std::byte* to, const int32_t* table, int first, int end) {
  constexpr int kWarps = S::kThreads / 32, kPieces = S::kRank / 8;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // Lane i looks up the warp's i-th row: one wait for all pages.
  const int at = first + warp + lane * kWarps, index = at / a.kv.page_rows;
  const int page = lane < S::kKeys / kWarps && at < end ? table[index] : -1, slot = at - index * a.kv.page_rows;
#pragma unroll 4
  for (int i = 0; i < S::kKeys / kWarps; ++i) {
    const int row = warp + i * kWarps, of_page = __shfl_sync(0xffffffffu, page, i),
              of_slot = __shfl_sync(0xffffffffu, slot, i);
    const bool valid = of_page >= 0;
    const std::byte* value = a.kv.v_rows(max(of_page, 0), 0) + of_slot * (2 * S::kRank);
    const std::byte* key = a.kv.k_rows(max(of_page, 0), 0) + of_slot * (2 * S::kRope);
    std::byte* place = to + row * 128 + lane / 8 * S::kPanel + lane % 8 * 16;
#pragma unroll
    for (int piece = 0; piece < kPieces; piece += 32)
      copy_async(place + piece / 8 * S::kPanel, value + (piece + lane) * 16, valid);
    if (lane < S::kRope / 8) copy_async(place + kPieces / 8 * S::kPanel, key + lane * 16, valid);
  }
  commit_copies();
}

// A thread's share: rows g and g + 8 of its warp's 16, columns as wgmma.cuh says.
template <class S>
struct LatentGroupRows {
  float out[S::kProducts][64];  // sums of weight · value of the group's columns
  float top[2], sum[2];         // of all keys; of this thread's
  int last[2];                  // the last position that a row sees

  __device__ LatentGroupRows(const AttentionArgs& a, const SplitItem& item, int of) {
#pragma unroll
    for (auto& product : out) {
#pragma unroll
      for (float& x : product) x = 0;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      top[h] = -INFINITY;
      sum[h] = 0;
      const int packed = item.first + of + 8 * h + static_cast<int>(threadIdx.x) % 32 / 4;
      last[h] = packed < item.end ? a.position[item.q_begin + packed / a.group] : item.keys_end - 1;
    }
  }
};

// Scores of this side's keys become weights in shared memory, relative to the largest score of both sides; what was
// summed before is brought to it. `first`: the position of the side's first key; `of`: the warp's first row. Meets the
// whole block twice.
template <class S>
__device__ inline void weigh_latent_group(const AttentionArgs& a, LatentGroupRows<S>& rows,
                                          float (&s)[S::kSideKeys / 2], std::byte* shared, int side, int of,
                                          int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  float* tops = reinterpret_cast<float*>(shared + S::kTops);
  float top[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    top[h] = -INFINITY;
    const int last = rows.last[h] - first - 2 * t;
#pragma unroll
    for (int n = 0; n < S::kSideKeys / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = s[4 * n + 2 * h + c];
        x = 8 * n + c <= last ? x * a.scale_log2 : -INFINITY;
        top[h] = fmaxf(top[h], x);
      }
    }
    top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 1));
    top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 2));
    if (t == 0) tops[side * S::kPacked + of + 8 * h + g] = top[h];
  }
  __syncthreads();
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = of + 8 * h + g;
    const float all = fmaxf(rows.top[h], fmaxf(top[h], tops[(side ^ 1) * S::kPacked + row]));
    const float base = all == -INFINITY ? 0.0f : all;
    factor[h] = fast_exp2(rows.top[h] - base);
    rows.top[h] = all;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < S::kSideKeys / 8; ++n) {
      const float low = fast_exp2(s[4 * n + 2 * h] - base), high = fast_exp2(s[4 * n + 2 * h + 1] - base);
      sum += low + high;
      *reinterpret_cast<uint32_t*>(shared + S::kWeights + latent_panel_piece(row, side * (S::kSideKeys / 8) + n) +
                                   4 * t) = pack<S::kBf16>(low, high);
    }
    rows.sum[h] = fmaf(rows.sum[h], factor[h], sum);
  }
  shared_writes_done();
  __syncthreads();
  // The largest score grows seldom after the first keys; a product with 1 would change nothing.
  if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f) == 0) return;
#pragma unroll
  for (auto& product : rows.out) {
#pragma unroll
    for (int i = 0; i < 64; ++i) product[i] *= factor[i / 2 % 2];
  }
}

// One step over keys in shared memory.
template <class S>
__device__ inline void attend_latent_step(const AttentionArgs& a, LatentGroupRows<S>& rows, std::byte* shared,
                                          const std::byte* keys, int side, int of, int first) {
  float s[S::kSideKeys / 2];
  const MatrixPlace q = matrix_by_rows(shared + S::kQueries), k = matrix_by_rows(keys + side * S::kSideKeys * 128);
  products_begin();
#pragma unroll
  for (int kk = 0; kk < S::kPanels * 4; ++kk) {
    const int at = kk / 4 * S::kPanel + kk % 4 * 32;
    multiply_group<S::kBf16, false>(s, further(q, at), further(k, at), kk > 0);
  }
  products_commit();
  products_done<0>(s);
  weigh_latent_group<S>(a, rows, s, shared, side, of, first + side * S::kSideKeys);
  const MatrixPlace p = matrix_by_rows(shared + S::kWeights);
  products_begin();
#pragma unroll
  for (int i = 0; i < S::kProducts; ++i) {
    const MatrixPlace v = matrix_by_columns(keys + (side * S::kProducts + i) * 2 * S::kPanel, S::kPanel);
#pragma unroll
    for (int j = 0; j < S::kKeys / 16; ++j)
      multiply_group<S::kBf16, true>(rows.out[i], further(p, 32 * j), further(v, 2048 * j));
  }
  products_commit();
  if constexpr (S::kProducts == 2) {
    products_done<0>(rows.out[0], rows.out[1]);
  } else {
    products_done<0>(rows.out[0]);
  }
}

// The block's results: to their rows, or to where the last block of the unit finds them, which merges. Through shared
// memory, in the place of the keys, so that whole rows are written at a time.
template <class S>
__device__ void leave_latent_group(const AttentionArgs& a, const SplitItem& item, const LatentGroupRows<S>& rows,
                                   std::byte* shared, int side, int of) {
  constexpr int kStride = S::kRank + 8, kQuads = S::kRank / 4, kWarps = S::kThreads / 32;
  static_assert(S::kPacked * kStride * 4 <= 2 * S::kStageBytes);
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  float* results = reinterpret_cast<float*>(shared + S::kRing);
  float* sums = reinterpret_cast<float*>(shared + S::kSums);
  float* tops = reinterpret_cast<float*>(shared + S::kTops);
  __syncthreads();  // all products are done
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = of + 8 * h + g;
    float sum = rows.sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (t == 0) sums[side * S::kPacked + row] = sum;
    if (t == 0 && side == 0) tops[row] = rows.top[h];
    float* to = results + row * kStride + side * S::kSideCols + 2 * t;
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i) {
#pragma unroll
      for (int n = 0; n < 16; ++n)
        *reinterpret_cast<float2*>(to + i * 128 + 8 * n) =
            make_float2(rows.out[i][4 * n + 2 * h], rows.out[i][4 * n + 2 * h + 1]);
    }
  }
  __syncthreads();
  const bool alone = item.n_splits == 1;
  const Part part(a, S::kPacked, S::kRank, item.part + item.split);
#pragma unroll 2
  for (int row = static_cast<int>(threadIdx.x) / 32; row < item.end - item.first; row += kWarps) {
    const float top = tops[row], sum = sums[row] + sums[S::kPacked + row];
    const int packed = item.first + row;
    const float factor = alone ? last_factor(a, packed % a.group, top, sum) : 1.0f;
#pragma unroll
    for (int quad = 0; quad < kQuads; quad += 32) {
      const int column = 4 * (quad + lane);
      const float4 x = *reinterpret_cast<const float4*>(results + row * kStride + column);
      if (alone) {
        store_result(a, item, packed, column, x, factor);
      } else {
        *reinterpret_cast<float4*>(part.x + row * S::kRank + column) = x;
      }
    }
    if (!alone && lane == 0) {
      part.tops[row] = top;
      part.sums[row] = sum;
    }
  }
  if (alone) return;
  if (last_to_arrive(a.tickets + static_cast<int64_t>(item.seq) * gridDim.y + blockIdx.y, item.n_splits,
                     reinterpret_cast<uint32_t*>(shared + S::kFlag)))
    merge_parts<S>(a, item, 0, item.end - item.first);
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) attend_latent_group(AttentionArgs a) {
#if INGOT_HAS_WGMMA
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  SplitItem item;
  if (!item.find(a, S::kPacked)) return;  // reads the batch alone, which is there before the step's first kernel
  wait_for_inputs();
  const int side = static_cast<int>(threadIdx.x) / 128, of = static_cast<int>(threadIdx.x) % 128 / 32 * 16;
  const int32_t* table = a.page_table + static_cast<int64_t>(item.seq) * a.pages_per_seq;
  const int begin = item.split_begin + item.split * item.split_keys, end = min(begin + item.split_keys, item.keys_end);
  copy_latent_queries<S>(a, shared + S::kQueries, item);
  copy_latents<S>(a, shared + S::kRing, table, begin, end);
  if (begin + S::kKeys < end) copy_latents<S>(a, shared + S::kRing + S::kStageBytes, table, begin + S::kKeys, end);
  LatentGroupRows<S> rows(a, item, of);
  int stage = 0;
#pragma unroll 1
  for (int first = begin; first < end; first += S::kKeys, stage ^= 1) {
    if (first == begin && first + S::kKeys < end) {
      copies_done<1>();
    } else {
      copies_done<0>();
    }
    shared_writes_done();
    __syncthreads();
    if (first > begin && first + S::kKeys < end)
      copy_latents<S>(a, shared + S::kRing + (stage ^ 1) * S::kStageBytes, table, first + S::kKeys, end);
    attend_latent_step<S>(a, rows, shared, shared + S::kRing + stage * S::kStageBytes, side, of, first);
  }
  leave_latent_group<S>(a, item, rows, shared, side, of);
#else
  __trap();
#endif
}

template <DType kType, int kRank>
void launch_latent_group(const Ctx& ctx, const AttentionArgs& a) {
  using S = LatentGroupShape<kType, kRank>;
  launch(ctx, attend_latent_group<S>, {a.grid, dim3(S::kThreads), S::kBytes}, a);
}

}  // namespace ingot::cuda
