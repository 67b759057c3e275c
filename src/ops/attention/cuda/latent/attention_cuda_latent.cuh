// Attention over a latent cache: all heads of a row meet the same keys, whose first kRank columns are the values, so
// one tile in shared memory serves the scores and the sums. A block takes 16 or 64 packed rows of a seq and one split
// of their keys, 64 at a time. Eight (or two) warps share 16 rows: each scores some of the keys, then, when all weights
// are in shared memory, adds up some of the columns. Blocks of 16 rows may share a split: the results of a cluster's
// meet in its shared memory, where each block merges some of the rows. Where there are several splits the last block to
// arrive merges them, in order.
#pragma once

#include "ops/attention/cuda/latent/attention_cuda_latent_end.cuh"
#include "ops/attention/cuda/latent/attention_cuda_latent_group.cuh"

namespace ingot::cuda {

template <DType kType_, int kRank_, int kRope_, int kTiles_, int kStages_>
struct LatentShape {
  static constexpr DType kType = kType_;
  static constexpr bool kCoded = kv_is_coded(kType), kBf16 = kType == DType::kBF16;
  static constexpr int kRank = kRank_, kRope = kRope_, kTiles = kTiles_, kStages = kStages_;
  static constexpr int kDim = kRank;                  // of results
  static constexpr int kSides = kTiles == 1 ? 8 : 2;  // warps that share 16 packed rows
  static constexpr int kThreads = 32 * kTiles * kSides;
  static constexpr int kPacked = 16 * kTiles;
  static constexpr int kKeys = kSplitStep;
  static constexpr int kSideKeys = kKeys / kSides, kSideCols = kRank / kSides;
  using Latents = TileRows<kRank>;
  using Rotary = TileRows<kRope>;

  static constexpr int kQueries = 0;  // where what lies in shared memory: the latent parts, then the rotary ones
  static constexpr int kRing = kQueries + kPacked * (Latents::kStride + Rotary::kStride);
  static constexpr int kStageBytes = kKeys * (Latents::kStride + Rotary::kStride);
  static constexpr int kWeightStride = 2 * kKeys + 16;
  static constexpr int kWeights = kRing + kStages * kStageBytes;
  static constexpr int kTops = kWeights + kPacked * kWeightStride;
  static constexpr int kSums = kTops + kSides * kPacked * 4;
  static constexpr int kFlag = kSums + kSides * kPacked * 4;
  static constexpr int kBytes = kFlag + 16;
  static constexpr int kResultStride = kRank + 8;  // floats of a row of 16, which take the place of the keys
  static_assert(kSideCols % 16 == 0 && kStageBytes >= 16 * kResultStride * 4);
  static_assert(kBytes <= (kTiles == 1 && kStages == 1 ? 99 : 227) << 10);
};

// The packed rows [first, first + kPacked) of a seq into shared memory, a row for each warp in turn; zeros from `end`
// on. Those of the products' type are on their way when it returns.
template <class S>
__device__ void load_latent_queries(const AttentionArgs& a, std::byte* to, const SplitItem& item) {
  constexpr int kWarps = S::kThreads / 32, kRows = S::kPacked / kWarps;
  constexpr DType kType = S::kBf16 ? DType::kBF16 : DType::kF16;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const LatentQueries rows(a, item, warp + lane % kRows * kWarps);
#pragma unroll 2
  for (int i = 0; i < kRows; ++i) {
    const int row = warp + i * kWarps;
    const std::byte* from = rows.of_lane(i);
    rows.each_piece<S>(a, from, lane, [&](int piece, const std::byte* at) {
      constexpr int kOfRank = S::kRank / 8;
      std::byte* place =
          to + (piece < kOfRank ? S::Latents::at(row, piece)
                                : S::kPacked * S::Latents::kStride + S::Rotary::at(row, piece - kOfRank));
      if (a.q.dtype == kType) {
        copy_async(place, at, from != nullptr);
      } else {
        *reinterpret_cast<uint4*>(place) =
            from != nullptr ? narrow_eight<S::kBf16>(at, a.q.dtype) : make_uint4(0, 0, 0, 0);
      }
    });
  }
  commit_copies();
}

// Piece `lane` of 16 codes of a latent as two pieces of f16.
template <class S>
__device__ inline void open_latent(const KvRow& row, int lane, uint4 (&out)[2]) {
  const uint4 codes = *reinterpret_cast<const uint4*>(row.at + kv_code_piece(S::kRank, row.slot, lane) * 16);
  const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  uint32_t pairs[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) open_codes<S::kType>(words[i], pairs[2 * i], pairs[2 * i + 1]);
  if constexpr (S::kType == DType::kQ8_0) {
    const uint32_t half = reinterpret_cast<const uint16_t*>(row.scales)[lane / 2];
#pragma unroll
    for (uint32_t& pair : pairs) pair = multiply_pairs(pair, half | half << 16);
  }
  out[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  out[1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
}

// The keys from position `first` on, a row for each warp in turn; zeros from `end` on: what lies in the cache there may
// be no number. Rows lie as in the cache, whose pieces are permuted by the slot: `first` is a multiple of 64.
template <class S>
__device__ void load_latents(const AttentionArgs& a, std::byte* to, const int32_t* table, int first, int end) {
  constexpr int kWarps = S::kThreads / 32, kPieces = S::kRank / 8, kTurned = S::kRope / 8;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // Lane i looks up the warp's i-th row: one wait for all pages.
  const int at = first + warp + lane * kWarps, index = at / a.kv.page_rows;
  const int page = lane < S::kKeys / kWarps && at < end ? table[index] : -1, slot = at - index * a.kv.page_rows;
#pragma unroll(S::kTiles == 1 ? 4 : 2)
  for (int i = 0; i < S::kKeys / kWarps; ++i) {
    const int row = warp + i * kWarps, of_page = __shfl_sync(0xffffffffu, page, i),
              of_slot = __shfl_sync(0xffffffffu, slot, i);
    const bool valid = of_page >= 0;
    const std::byte* value = a.kv.v_rows(max(of_page, 0), 0) + of_slot * a.kv.v_row_bytes;
    const std::byte* key = a.kv.k_rows(max(of_page, 0), 0) + of_slot * a.kv.k_row_bytes;
    std::byte* latent = to + row * S::Latents::kStride;
    std::byte* rotary = to + S::kKeys * S::Latents::kStride + row * S::Rotary::kStride;
    if constexpr (S::kCoded) {
      if (lane < S::kRank / 16) {
        uint4 open[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
        if (valid) open_latent<S>(a.kv.value(of_page * a.kv.page_rows + of_slot, 0), lane, open);
        for (int h = 0; h < 2; ++h) *reinterpret_cast<uint4*>(to + S::Latents::at(row, 2 * lane + h)) = open[h];
      }
    } else {
#pragma unroll
      for (int piece = lane; piece < kPieces; piece += 32) copy_async(latent + piece * 16, value + piece * 16, valid);
    }
    if (lane < kTurned) copy_async(rotary + lane * 16, key + lane * 16, valid);
  }
  commit_copies();
}

// s += query · key for this side's keys, over kDim columns of both.
template <class S, int kDim>
__device__ inline void score_latents(float (&s)[S::kSideKeys / 8][4], const std::byte* queries, const std::byte* keys) {
  using Rows = TileRows<kDim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int of_query = Rows::at(lane % 16, lane / 16);
  if constexpr (S::kSideKeys == 8) {  // four blocks of eight columns at a time, in two sums
    const int of_key = Rows::at(lane % 8, lane / 8);
    float odd[4] = {};
#pragma unroll 4
    for (int kk = 0; kk < kDim / 32; ++kk) {
      uint32_t q[2][4], b[4];
      load_matrices(q[0], queries + Rows::further(of_query, 4 * kk));
      load_matrices(q[1], queries + Rows::further(of_query, 4 * kk + 2));
      load_matrices(b, keys + Rows::further(of_key, 4 * kk));
      multiply<S::kBf16>(s[0], q[0], b[0], b[1]);
      multiply<S::kBf16>(odd, q[1], b[2], b[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) s[0][i] += odd[i];
    return;
  }
  const int of_key = Rows::at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll(S::kCoded ? 2 : 4)  // four spill where codes are opened, too
  for (int kk = 0; kk < kDim / 16; ++kk) {
    uint32_t q[4];
    load_matrices(q, queries + Rows::further(of_query, 2 * kk));
#pragma unroll
    for (int n = 0; n < S::kSideKeys / 16; ++n) {
      uint32_t b[4];
      load_matrices(b, keys + Rows::further(of_key, 2 * kk) + 16 * n * Rows::kStride);
      multiply<S::kBf16>(s[2 * n], q, b[0], b[1]);
      multiply<S::kBf16>(s[2 * n + 1], q, b[2], b[3]);
    }
  }
}

// Scores become weights in shared memory, relative to the largest score of all sides; what was summed before is brought
// to it. Meets the whole block twice.
template <class S>
__device__ inline void weigh_latents(const AttentionArgs& a, LatentWarp<S>& rows, float (&s)[S::kSideKeys / 8][4],
                                     std::byte* shared, int tile, int side, int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  float* tops = reinterpret_cast<float*>(shared + S::kTops) + 16 * tile;
  float top[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < S::kSideKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int p = first + side * S::kSideKeys + 8 * n + 2 * t + i % 2;
      s[n][i] = p <= rows.last[i / 2] ? s[n][i] * a.scale_log2 : -INFINITY;
      top[i / 2] = fmaxf(top[i / 2], s[n][i]);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 1));
    top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], 2));
    if (t == 0) tops[side * S::kPacked + 8 * h + g] = top[h];
  }
  __syncthreads();
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float all = rows.top[h];
#pragma unroll
    for (int i = 0; i < S::kSides; ++i) all = fmaxf(all, tops[i * S::kPacked + 8 * h + g]);
    const float base = all == -INFINITY ? 0.0f : all;
    factor[h] = fast_exp2(rows.top[h] - base);
    rows.top[h] = all;
    float sum = 0;
    std::byte* to =
        shared + S::kWeights + (16 * tile + 8 * h + g) * S::kWeightStride + (side * S::kSideKeys + 2 * t) * 2;
#pragma unroll
    for (int n = 0; n < S::kSideKeys / 8; ++n) {
      const float low = fast_exp2(s[n][2 * h] - base), high = fast_exp2(s[n][2 * h + 1] - base);
      sum += low + high;
      *reinterpret_cast<uint32_t*>(to + 16 * n) = pack<S::kBf16>(low, high);
    }
    rows.sum[h] = fmaf(rows.sum[h], factor[h], sum);
  }
#pragma unroll
  for (int n = 0; n < S::kSideCols / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rows.out[n][i] *= factor[i / 2];
  }
  __syncthreads();
}

// out += weight · value for this side's columns of all keys of the tile.
template <class S>
__device__ inline void add_latents(LatentWarp<S>& rows, const std::byte* weights, const std::byte* values, int side) {
  using Rows = typename S::Latents;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int at = Rows::further(Rows::at(lane % 16, lane / 16), side * (S::kSideCols / 8));
#pragma unroll
  for (int j = 0; j < S::kKeys / 16; ++j) {
    uint32_t p[4];
    load_matrices(p, weights + lane % 16 * S::kWeightStride + lane / 16 * 16 + j * 32);
#pragma unroll
    for (int n = 0; n < S::kSideCols / 16; ++n) {
      uint32_t b[4];
      load_matrices_transposed(b, values + Rows::further(at, 2 * n) + 16 * j * Rows::kStride);
      multiply<S::kBf16>(rows.out[2 * n], p, b[0], b[1]);
      multiply<S::kBf16>(rows.out[2 * n + 1], p, b[2], b[3]);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) attend_latent(AttentionArgs a) {
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  SplitItem item;
  if (!item.find(a, S::kPacked)) return;  // reads the batch alone, which is there before the step's first kernel
  const int warp = static_cast<int>(threadIdx.x) / 32, tile = warp / S::kSides, side = warp % S::kSides;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int32_t* table = a.page_table + static_cast<int64_t>(item.seq) * a.pages_per_seq;
  int begin = item.split_begin + item.split * item.split_keys, end = min(begin + item.split_keys, item.keys_end);
  if (a.cluster_bits > 0) {  // this block's piece; it may be none
    const int piece =
        static_cast<int>(ceil_div((end - begin + (1 << a.cluster_bits) - 1) >> a.cluster_bits, S::kKeys)) * S::kKeys;
    begin += cluster_rank() * piece;
    end = min(begin + piece, end);
  }
  const auto stage = [&](int i) { return shared + S::kRing + i % S::kStages * S::kStageBytes; };
  const int tiles = max(0, static_cast<int>(ceil_div(end - begin, S::kKeys)));
  // Keys of earlier steps need not wait for this one's.
  const bool early = begin + S::kKeys <= item.past;
  if (early && tiles > 0) load_latents<S>(a, stage(0), table, begin, end);
  wait_for_inputs();
  if (!early && tiles > 0) load_latents<S>(a, stage(0), table, begin, end);
  load_latent_queries<S>(a, shared + S::kQueries, item);
  if (S::kStages > 1 && tiles > 1) load_latents<S>(a, stage(1), table, begin + S::kKeys, end);
  LatentWarp<S> rows;
  rows.clear();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int packed = item.first + 16 * tile + 8 * h + g;
    rows.last[h] = packed < item.end ? a.position[item.q_begin + packed / a.group] : item.keys_end - 1;
  }
  const std::byte* queries = shared + S::kQueries + 16 * tile * S::Latents::kStride;
  const std::byte* turned = shared + S::kQueries + S::kPacked * S::Latents::kStride + 16 * tile * S::Rotary::kStride;
  for (int i = 0; i < tiles; ++i) {
    const int first = begin + i * S::kKeys;
    if (S::kStages > 1 && i == 0 && tiles > 1) {
      copies_done<1>();
    } else {
      copies_done<0>();
    }
    __syncthreads();
    if (S::kStages > 1 && i > 0 && i + 1 < tiles) load_latents<S>(a, stage(i + 1), table, first + S::kKeys, end);
    float s[S::kSideKeys / 8][4] = {};
    const std::byte* keys = stage(i);
    score_latents<S, S::kRank>(s, queries, keys + side * S::kSideKeys * S::Latents::kStride);
    score_latents<S, S::kRope>(s, turned,
                               keys + S::kKeys * S::Latents::kStride + side * S::kSideKeys * S::Rotary::kStride);
    weigh_latents<S>(a, rows, s, shared, tile, side, first);
    add_latents<S>(rows, shared + S::kWeights + 16 * tile * S::kWeightStride, keys, side);
    if (S::kStages == 1 && i + 1 < tiles) {
      __syncthreads();
      load_latents<S>(a, stage(i + 1), table, first + S::kKeys, end);
    }
  }
  copies_done<0>();  // queries of a block without keys
  if constexpr (S::kTiles == 1) {
    meet_latents<S>(a, item, rows, shared, side);
  } else {
    leave_latents<S>(a, item, rows, shared, tile, side);
  }
}

template <class S>
void launch_latent(const Ctx& ctx, const AttentionArgs& a) {
  const Launch shape{a.grid, dim3(S::kThreads), S::kBytes};
  if (a.cluster_bits > 0) {
    CHECK(S::kTiles == 1, "clusters of wide tiles");
    return launch_clusters(ctx, 1 << a.cluster_bits, attend_latent<S>, shape, a);
  }
  launch(ctx, attend_latent<S>, shape, a);
}

template <DType kType, int kRank, int kRope>
void launch_latent(const Ctx& ctx, const AttentionArgs& a, bool wide) {
  // Codes are opened on their way: there is no second stage to copy into.
  constexpr int kStages = kv_is_coded(kType) ? 1 : 2;
  if constexpr (!kv_is_coded(kType) && kRope == 64) {
    if (wide && ctx.arch == 90) return launch_latent_group<kType, kRank>(ctx, a);
  }
  if (wide) return launch_latent<LatentShape<kType, kRank, kRope, 4, kStages>>(ctx, a);
  if constexpr (kStages > 1) {
    if (roomy(ctx.arch)) return launch_latent<LatentShape<kType, kRank, kRope, 1, kStages>>(ctx, a);
  }
  launch_latent<LatentShape<kType, kRank, kRope, 1, 1>>(ctx, a);
}

template <DType kType>
void launch_latent(const Ctx& ctx, const AttentionArgs& a, bool wide) {
  if (a.kv.v_dim == 512) return launch_latent<kType, 512, 64>(ctx, a, wide);
  if (a.kv.k_dim == 64) return launch_latent<kType, 256, 64>(ctx, a, wide);
  launch_latent<kType, 256, 32>(ctx, a, wide);
}

}  // namespace ingot::cuda
