// The heads that share keys are rows of one matrix, 16 at most: a block of four warps goes through the keys of a seq
// and KV head, or of one split of them, 64 at a time through kStages places, 16 for each warp.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "ladder/decode_attention/decode_attention.h"
#include "ladder/paged_attention.cuh"

namespace ingot::cuda {

struct Packed {
  static constexpr int kDim = PagedAttention::kDim, kKeys = 64, kThreads = 128, kRows = kNarrowRows;
  using Rows = TileRows<kDim>;
  static constexpr int kTileBytes = kKeys * Rows::kStride, kStage = 2 * kTileBytes;  // keys, then values
  static constexpr int kRing = kRows * Rows::kStride;                                // behind the queries
  static constexpr int kPart = kRows * (kDim + 2);                                   // floats of a warp's results
  static constexpr int64_t bytes(int stages) { return kRing + std::max(stages * kStage, 4 * 4 * kPart); }
};

// Keys from `key` on and their values, on their way; zeros behind the last.
__device__ inline void copy_tile(const AttentionArgs& a, std::byte* stage, int seq, int kv_head, int key, int end) {
  using P = Packed;
  if (key < end) {
    for (int i = static_cast<int>(threadIdx.x); i < P::kKeys * P::Rows::kPieces; i += P::kThreads) {
      const int row = i / P::Rows::kPieces, piece = i % P::Rows::kPieces;
      const bool there = key + row < end;
      const int slot = slot_at(a, seq, there ? key + row : key);
      std::byte* to = stage + row * P::Rows::kStride + piece * 16;  // permuted as it lies in the cache
      copy_async(to, a.kv.k_row(slot, kv_head) + piece * 16, there);
      copy_async(to + P::kTileBytes, a.kv.v_row(slot, kv_head) + piece * 16, there);
    }
  }
  commit_copies();
}

// A row's results of several sets of keys: `part(i)` is the i-th one's place of rows of kDim sums, then its largest
// score and its sum of weights. Thread t has columns [t % 8 · 16, … + 16) of row t / 8.
struct PackedResult {
  float x[16], top, sum;

  template <class F>
  __device__ PackedResult(int parts, F&& part) {
    const int row = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 16;
    for (int i = 0; i < parts; ++i) {
      const float* from = part(i) + row * (Packed::kDim + 2);
      if (i == 0) {
        top = from[Packed::kDim];
        sum = from[Packed::kDim + 1];
        for (int j = 0; j < 16; ++j) x[j] = from[column + j];
        continue;
      }
      const Merge merge(top, from[Packed::kDim]);
      top = merge.top;
      sum = merge(sum, from[Packed::kDim + 1]);
      for (int j = 0; j < 16; ++j) x[j] = merge(x[j], from[column + j]);
    }
  }
  __device__ void store(const AttentionArgs& a, int seq, int kv_head) const {
    const int row = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 16;
    if (row >= a.group) return;
    std::byte* to = a.out.row(a.q_start[seq]) + ((kv_head * a.group + row) * Packed::kDim + column) * 2;
    const float factor = 1.0f / sum;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float* v = x + 8 * j;
      reinterpret_cast<uint4*>(to)[j] =
          make_uint4(pack_bf16(v[0] * factor, v[1] * factor), pack_bf16(v[2] * factor, v[3] * factor),
                     pack_bf16(v[4] * factor, v[5] * factor), pack_bf16(v[6] * factor, v[7] * factor));
    }
  }
  __device__ void leave(float* part) const {
    const int row = static_cast<int>(threadIdx.x) / 8, column = static_cast<int>(threadIdx.x) % 8 * 16;
    float* to = part + row * (Packed::kDim + 2);
    for (int j = 0; j < 16; ++j) to[column + j] = x[j];
    if (column == 0) to[Packed::kDim] = top, to[Packed::kDim + 1] = sum;
  }
};

// A warp's results to shared memory.
__device__ inline void leave_warp(const WarpRows<Packed::kDim, 1>& rows, float* part) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = rows.sum[0][h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    float* to = part + (8 * h + g) * (Packed::kDim + 2);
#pragma unroll
    for (int n = 0; n < Packed::kDim / 8; ++n) {
      to[8 * n + 2 * t] = rows.out[0][n][2 * h];
      to[8 * n + 2 * t + 1] = rows.out[0][n][2 * h + 1];
    }
    if (t == 0) to[Packed::kDim] = rows.top[0][h], to[Packed::kDim + 1] = sum;
  }
}

// Blocks are (KV head, seq, split); the results of splits go to `parts`.
template <int kStages>
__global__ void __launch_bounds__(Packed::kThreads) attend_packed(AttentionArgs a, float* parts) {
  using P = Packed;
  let_next_begin();
  wait_for_inputs();
  std::byte* shared = shared_memory<std::byte>();
  const int kv_head = static_cast<int>(blockIdx.x), seq = static_cast<int>(blockIdx.y);
  const int splits = static_cast<int>(gridDim.z), warp = static_cast<int>(threadIdx.x) / 32;
  const int keys = a.kv_len[seq], tiles = (keys + P::kKeys - 1) / P::kKeys, share = (tiles + splits - 1) / splits;
  const int begin = static_cast<int>(blockIdx.z) * share * P::kKeys, end = min(begin + share * P::kKeys, keys);
  const auto stage = [&](int key) { return shared + P::kRing + (key - begin) / P::kKeys % kStages * P::kStage; };
  const auto copy = [&](int key) { copy_tile(a, stage(key), seq, kv_head, key, end); };
  for (int i = 0; i + 1 < kStages; ++i) copy(begin + i * P::kKeys);
  load_queries<true, P::kDim>(a, shared, a.q_start[seq], kv_head, 0, P::kRows, a.group);
  WarpRows<P::kDim, 1> rows;
  rows.clear();
  rows.find_positions(a, a.q_start[seq], 0, a.group, keys);
  const auto fragment = [&](uint32_t(&q)[4], int, int kk) { query_fragment<P::kDim>(q, shared, kk); };
#pragma unroll 1
  for (int key = begin; key < end; key += P::kKeys) {
    if (kStages == 1) {
      __syncthreads();  // nobody reads the tile before any more
      copy(key);
    }
    copies_done<kStages == 1 ? 0 : kStages - 2>();
    __syncthreads();
    if (kStages > 1) copy(key + (kStages - 1) * P::kKeys);
    const std::byte* k = stage(key) + 16 * warp * P::Rows::kStride;
    attend_keys<true, P::kDim, 1, 16>(a, rows, k, k + P::kTileBytes, key + 16 * warp, fragment);
  }
  copies_done<0>();
  __syncthreads();
  auto* room = reinterpret_cast<float*>(shared + P::kRing);
  leave_warp(rows, room + warp * P::kPart);
  __syncthreads();
  const PackedResult result(4, [&](int i) { return room + i * P::kPart; });
  if (splits == 1) return result.store(a, seq, kv_head);
  result.leave(parts + ((static_cast<int64_t>(seq) * a.kv_heads + kv_head) * splits + blockIdx.z) * P::kPart);
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads) merge_splits(AttentionArgs a, const float* parts, int splits) {
  let_next_begin();
  wait_for_inputs();
  const int kv_head = static_cast<int>(blockIdx.x), seq = static_cast<int>(blockIdx.y);
  const float* mine = parts + (static_cast<int64_t>(seq) * a.kv_heads + kv_head) * splits * Packed::kPart;
  PackedResult(splits, [&](int i) { return mine + i * Packed::kPart; }).store(a, seq, kv_head);
}

template <int kStages>
void attend_by_tiles(const DecodeAttention& op, const Ctx& ctx, int splits) {
  if (ctx.rows(op.q) == 0) return;
  const AttentionArgs a = paged_args(op);
  CHECK(a.group <= Packed::kRows && op.rows == 1, "{} heads of {} rows share keys", a.group, op.rows);
  auto* parts = reinterpret_cast<float*>(ctx.scratch);
  launch(ctx, attend_packed<kStages>,
         {dim3(op.kv_heads, op.seqs, splits), dim3(Packed::kThreads), Packed::bytes(kStages)}, a, parts);
  if (splits > 1)
    launch(ctx, merge_splits<Packed::kThreads>, {dim3(op.kv_heads, op.seqs), dim3(128)}, a, parts, splits);
}

// As many as give every multiprocessor two blocks, with two tiles of keys at least.
inline int splits_of(const DecodeAttention& op, const Ctx& ctx) {
  const int units = std::max(op.seqs * op.kv_heads, 1);
  const int most = std::max((op.past + op.rows) / (2 * Packed::kKeys), 1);
  return std::clamp(2 * ctx.multiprocessors / units, 1, std::min(most, 1024 / units + 4));
}

}  // namespace ingot::cuda
