// Attention of many rows of a seq (prompts and chunks of them), FlashAttention-2's way: a block takes 128 packed rows
// of a seq and KV head and goes through the keys that any of them sees in steps, two steps in shared memory at a time.
#pragma once

#include "ops/attention/cuda/attention_cuda_codes.cuh"
#include "ops/attention/cuda/attention_cuda_rows_warp.cuh"

namespace ingot::cuda {

template <DType kCache_, int kDim_>
struct RowsShape {
  static constexpr DType kCache = kCache_;
  static constexpr bool kBf16 = kCache == DType::kBF16;
  static constexpr int kDim = kDim_;
  using Rows = TileRows<kDim>;

  // Two tiles of 16 rows to a warp use each fragment of keys and values twice; a head of 256 has registers for one.
  static constexpr int kTiles = kDim <= 128 ? 2 : 1;
  static constexpr int kThreads = 32 * kRowsTile / (16 * kTiles);
  static constexpr int kBlocks = kDim <= 128 ? 2 : 1;  // of a multiprocessor
  static constexpr int kKeys = kDim <= 128 ? 64 : 32;
  // Keys whose scores a warp holds at a time: as many as the registers allow.
  static constexpr int kAtOnce = kDim <= 96 ? 64 : 32;
  static constexpr int kStepBytes = kKeys * Rows::kStride;  // of keys, and again of values
  static constexpr int kQueries = 0;
  static constexpr int kRing = kRowsTile * Rows::kStride;
  static constexpr int kItem = kRing + 2 * 2 * kStepBytes;
  static constexpr int kBytes = kItem + static_cast<int>(sizeof(RowsItem));
  static_assert(sizeof(RowsItem) % 4 == 0);
};

// Starts the copies of keys and values of one step into shared memory.
template <class S>
__device__ inline void copy_step(const AttentionArgs& a, const RowsItem& item, std::byte* to, int key,
                                 const StepPages& pages) {
  using Rows = typename S::Rows;
  const int thread = static_cast<int>(threadIdx.x);
  const auto place = [](int i) { return Rows::kPermuted ? 16 * i : 16 * (i + i / Rows::kPieces); };
  const int page = __shfl_sync(0xffffffffu, pages.page, 0), slot = __shfl_sync(0xffffffffu, pages.slot, 0);
  if (key + S::kKeys <= item.keys_end && slot + S::kKeys <= a.kv.page_rows && page >= 0) {
    const int64_t from = static_cast<int64_t>(slot) * (2 * S::kDim) + 16 * thread;
    const std::byte* k = a.kv.k_rows(page, item.kv_head) + from;
    const std::byte* v = a.kv.v_rows(page, item.kv_head) + from;
#pragma unroll
    for (int j = 0; j < S::kKeys * Rows::kPieces / S::kThreads; ++j) {
      const int at = place(thread + j * S::kThreads);
      copy_async(to + at, k + 16 * j * S::kThreads);
      copy_async(to + S::kStepBytes + at, v + 16 * j * S::kThreads);
    }
    return;
  }
  constexpr int kChunkPieces = 16 * Rows::kPieces;  // of 16 keys, which lie in one page
#pragma unroll 1
  for (int chunk = 0; chunk < S::kKeys / 16; ++chunk) {
    // A page that the window has left behind is none: the first step may reach back to it.
    const int of_chunk = __shfl_sync(0xffffffffu, pages.page, chunk), its_page = max(of_chunk, 0);
    const int64_t from = static_cast<int64_t>(__shfl_sync(0xffffffffu, pages.slot, chunk)) * (2 * S::kDim);
    const int valid = of_chunk < 0 ? 0 : item.keys_end - key - 16 * chunk;
    const std::byte* k = a.kv.k_rows(its_page, item.kv_head) + from;
    const std::byte* v = a.kv.v_rows(its_page, item.kv_head) + from;
#pragma unroll 2
    for (int i = thread; i < kChunkPieces; i += S::kThreads) {
      const bool there = i / Rows::kPieces < valid;
      const int at = place(chunk * kChunkPieces + i);
      copy_async(to + at, there ? k + 16 * i : k, there);
      copy_async(to + S::kStepBytes + at, there ? v + 16 * i : v, there);
    }
  }
}

// The same of codes, which become f16 on their way: there when it returns, and a barrier.
template <class S>
__device__ inline void open_step(const AttentionArgs& a, const RowsItem& item, std::byte* to, int key,
                                 const StepPages& pages) {
  using Rows = typename S::Rows;
  using Piece = CodePiece<S::kCache>;
  constexpr int kPieces = S::kDim / 16, kChunkPieces = 16 * kPieces, kHalf = S::kStepBytes;
#pragma unroll 1
  for (int chunk = 0; chunk < S::kKeys / 16; ++chunk) {
    const int page = __shfl_sync(0xffffffffu, pages.page, chunk), slot = __shfl_sync(0xffffffffu, pages.slot, chunk);
    const int valid = page < 0 ? 0 : item.keys_end - key - 16 * chunk;
    const std::byte* k = a.kv.k_rows(max(page, 0), item.kv_head);
    const std::byte* v = a.kv.v_rows(max(page, 0), item.kv_head);
    const int scales = a.kv.page_rows * S::kDim;
    for (int i = static_cast<int>(threadIdx.x); i < kChunkPieces; i += S::kThreads) {
      const int row = i / kPieces, piece = i % kPieces;
      Piece of_k, of_v;
      const int logical = Piece::template logical<S::kDim>(row, piece), from = (slot + row) * S::kDim + piece * 16;
      const int scale = scales + ((slot + row) * (S::kDim / kQ8Block) + logical / 2) * 2;
      of_k.take(k + from, k + scale, row < valid);
      of_v.take(v + from, v + scale, row < valid);
      std::byte* first = to + Rows::at(16 * chunk + row, 2 * logical);
      std::byte* second = to + Rows::at(16 * chunk + row, 2 * logical + 1);
      of_k.store(first, second, false);
      of_v.store(first + kHalf, second + kHalf, false);
    }
  }
}

// The next step's keys and values on their way.
template <class S>
__device__ inline void start_step(const AttentionArgs& a, const RowsItem& item, std::byte* to, int key,
                                  const StepPages& pages) {
  if constexpr (kv_is_coded(S::kCache)) {
    open_step<S>(a, item, to, key, pages);
  } else {
    copy_step<S>(a, item, to, key, pages);
  }
  commit_copies();
}

// kAtOnce keys and their values. `whole`: every row of the warp sees all of them, and there is no soft cap.
template <class S>
__device__ inline void attend_part(const AttentionArgs& a, const RowsItem& item, WarpRows<S::kDim, S::kTiles>& rows,
                                   const std::byte* k, int first, const std::byte* queries, int of, bool whole) {
  constexpr int kKeys = S::kAtOnce;
  const auto fragment = [&](uint32_t(&q)[4], int m, int kk) {
    query_fragment<S::kDim>(q, queries + 16 * m * S::Rows::kStride, kk);
  };
  float s[S::kTiles][kKeys / 8][4] = {};
  score_keys<S::kBf16, S::kDim, S::kTiles, kKeys>(s, k, fragment);
  float scale = a.scale_log2;
  if (!whole) {
    if (a.softcap > 0) {
      cap_scores<S::kTiles, kKeys>(a, s);
      scale = 1;
    }
    mask_scores<S::kTiles, kKeys>(a, item, s, of, first);
  }
  weigh_scores<S::kDim, S::kTiles, kKeys>(rows, s, scale);
  add_values<S::kBf16, S::kDim, S::kTiles, kKeys>(rows, s, k + S::kStepBytes);
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks) attend_rows(AttentionArgs a) {
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  // In shared memory: the sums of values and a step's scores leave no registers for it.
  RowsItem& item = *reinterpret_cast<RowsItem*>(shared + S::kItem);
  StepPages pages;
  bool found = false;
  {
    RowsItem mine;
    mine.kv_head = static_cast<int>(blockIdx.x);
    found = TileFinder(a).find(a, static_cast<int>(blockIdx.y), S::kKeys, mine);
    if (found) pages = StepPages::of<S>(a, mine, mine.keys_begin);
    if (threadIdx.x == 0) item = mine;
  }
  __syncthreads();
  wait_for_inputs();
  if (!found) return;

  start_queries<S>(a, item, shared + S::kQueries);
  int key = item.keys_begin;
  start_step<S>(a, item, shared + S::kRing, key, pages);
  pages = StepPages::of<S>(a, item, key + S::kKeys);
  const int of = 16 * S::kTiles * (static_cast<int>(threadIdx.x) / 32);  // the warp's first row in the item
  std::byte* queries = shared + S::kQueries + of * S::Rows::kStride;
  const SeenKeys seen(a, item, of, 16 * S::kTiles);
  WarpRows<S::kDim, S::kTiles> rows;
  rows.clear();

#pragma unroll 1
  for (int stage = 0; key < item.keys_end; key += S::kKeys, stage ^= 1) {
    // One barrier a step: this step's keys are there, and nobody reads those of the step before any more.
    copies_done<0>();
    __syncthreads();
    if (key + S::kKeys < item.keys_end) {
      start_step<S>(a, item, shared + S::kRing + (stage ^ 1) * 2 * S::kStepBytes, key + S::kKeys, pages);
      pages = StepPages::of<S>(a, item, key + 2 * S::kKeys);
    }
    const std::byte* k = shared + S::kRing + stage * 2 * S::kStepBytes;
    const bool whole = key + S::kKeys - 1 <= seen.all && key >= seen.lowest && a.softcap <= 0;
    // Warps of padding, and those whose rows all come before these keys, have nothing to do.
#pragma unroll 1
    for (int i = 0; i < S::kKeys && key + i <= seen.any; i += S::kAtOnce)
      attend_part<S>(a, item, rows, k + i * S::Rows::kStride, key + i, queries, of, whole);
  }
  store_rows<S>(a, item, rows, of, queries);
}

template <DType kCache, int kDim>
void launch_rows(const Ctx& ctx, const AttentionArgs& a, int64_t tiles) {
  using S = RowsShape<kCache, kDim>;
  launch(ctx, attend_rows<S>,
         {dim3(static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(tiles)), dim3(S::kThreads), S::kBytes}, a);
}

template <DType kCache>
void launch_rows(const Ctx& ctx, const AttentionArgs& a, int64_t tiles) {
  switch (a.kv.k_dim) {
    case 64:
      return launch_rows<kCache, 64>(ctx, a, tiles);
    case 96:
      return launch_rows<kCache, 96>(ctx, a, tiles);
    case 128:
      return launch_rows<kCache, 128>(ctx, a, tiles);
    default:
      CHECK(a.kv.k_dim == 256, "heads of {}", a.kv.k_dim);
      return launch_rows<kCache, 256>(ctx, a, tiles);
  }
}

}  // namespace ingot::cuda
