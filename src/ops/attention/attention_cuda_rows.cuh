// Attention of many rows of a seq (prompts and chunks of them), FlashAttention-2's way: a block takes 128 packed rows
// of a seq and KV head and goes through the keys that any of them sees in steps, two steps in shared memory at a time.
#pragma once

#include "ops/attention/attention_cuda_tile.cuh"

namespace ingot::cuda {

template <bool kBf16_, int kDim_>
struct RowsShape {
  static constexpr bool kBf16 = kBf16_;
  static constexpr int kDim = kDim_;
  using Rows = TileRows<kDim>;

  // Two tiles of 16 rows to a warp use each fragment of keys and values twice; a head of 256 has registers for one.
  static constexpr int kTiles = kDim <= 128 ? 2 : 1;
  static constexpr int kThreads = 32 * kRowsTile / (16 * kTiles);
  static constexpr int kKeys = kDim <= 128 ? 64 : 32;
  // Keys whose scores a warp holds at a time: as many as the registers allow.
  static constexpr int kAtOnce = kDim <= 96 ? 64 : kDim == 128 ? 32 : 16;
  static constexpr int kStepBytes = kKeys * Rows::kStride;  // of keys, and again of values
  static constexpr int kQueries = 0;
  static constexpr int kRing = kRowsTile * Rows::kStride;
  static constexpr int kBytes = kRing + 2 * 2 * kStepBytes;
};

// The tile that block `index` takes: tiles are counted from the last seq's last to the first, so that those with the
// most keys begin first. By a whole warp; false where there are not so many.
__device__ inline bool find_tile(const AttentionArgs& a, int index, int& seq, int& first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int after = a.seqs; after > 0; after -= 32) {
    const int s = after - 1 - lane;
    int packed = s >= 0 ? (a.q_start[s + 1] - a.q_start[s]) * a.group : 0;
    if (packed < a.least_packed || packed > a.most_packed) packed = 0;
    const int tiles = static_cast<int>(ceil_div(packed, kRowsTile));
    int through = tiles;  // of this lane's seq and those of lanes before it
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      const int other = __shfl_up_sync(0xffffffffu, through, d);
      if (lane >= d) through += other;
    }
    const unsigned mine = __ballot_sync(0xffffffffu, index < through);
    if (mine != 0) {
      const int source = __ffs(static_cast<int>(mine)) - 1;
      seq = after - 1 - source;
      const int of_seq = __shfl_sync(0xffffffffu, tiles, source), end = __shfl_sync(0xffffffffu, through, source);
      first = (of_seq - 1 - (index - (end - of_seq))) * kRowsTile;
      return true;
    }
    index -= __shfl_sync(0xffffffffu, through, 31);
  }
  return false;
}

// Two neighbouring columns of a row.
__device__ inline void store_two(const AttentionArgs& a, std::byte* row, int64_t at, float x, float y) {
  if (a.out.dtype == DType::kF32) {
    *reinterpret_cast<float2*>(row + at * 4) = make_float2(x, y);
  } else {
    *reinterpret_cast<uint32_t*>(row + at * 2) = a.out.dtype == DType::kBF16 ? pack_bf16(x, y) : pack_f16(x, y);
  }
}

template <class S>
__device__ void store_rows(const AttentionArgs& a, const WarpRows<S::kDim, S::kTiles>& rows, int q_begin, int kv_head,
                           int first, int end) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < S::kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = rows.sum[m][h];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const int packed = first + 16 * m + 8 * h + g;
      if (packed >= end) continue;
      const int head = kv_head * a.group + packed % a.group;
      const float factor = last_factor(a, head, rows.top[m][h], sum);
      std::byte* row = a.out.row(q_begin + packed / a.group);
      const int64_t at = static_cast<int64_t>(head) * S::kDim + 2 * t;
#pragma unroll
      for (int n = 0; n < S::kDim / 8; ++n)
        store_two(a, row, at + 8 * n, rows.out[m][n][2 * h] * factor, rows.out[m][n][2 * h + 1] * factor);
    }
  }
}

// Keys and values of one step into shared memory. `pages`: lane i has the page of the step's i-th 16 keys.
template <class S>
__device__ void copy_step(const AttentionArgs& a, std::byte* to, int kv_head, int key, int keys_end, int pages) {
  using Rows = typename S::Rows;
  constexpr int kChunkPieces = 16 * Rows::kPieces;  // of 16 keys, which lie in one page
  for (int chunk = 0; chunk < S::kKeys / 16; ++chunk) {
    const int first = key + 16 * chunk, of_chunk = __shfl_sync(0xffffffffu, pages, chunk);
    // A page that the window has left behind is none: the first step may reach back to it.
    const int page = max(of_chunk, 0), valid = of_chunk < 0 ? 0 : keys_end - first;
    const int64_t place = static_cast<int64_t>(first % a.kv.page_rows) * (2 * S::kDim);
    const std::byte* k = a.kv.k_rows(page, kv_head) + place;
    const std::byte* v = a.kv.v_rows(page, kv_head) + place;
    for (int i = static_cast<int>(threadIdx.x); i < kChunkPieces; i += S::kThreads) {
      const int row = i / Rows::kPieces, piece = i % Rows::kPieces;
      const int at = (16 * chunk + row) * Rows::kStride + piece * 16, from = row * 2 * S::kDim + piece * 16;
      copy_async(to + at, row < valid ? k + from : k, row < valid);
      copy_async(to + S::kStepBytes + at, row < valid ? v + from : v, row < valid);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads) attend_rows(AttentionArgs a) {
  let_next_begin();
  wait_for_inputs();
  int seq = 0, first = 0;
  if (!find_tile(a, static_cast<int>(blockIdx.x), seq, first)) return;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int q_begin = a.q_start[seq], n_rows = a.q_start[seq + 1] - q_begin, past = a.kv_len[seq] - n_rows;
  const int end = min(n_rows * a.group, first + kRowsTile);
  const int keys_end = past + (end - 1) / a.group + 1;
  int key = a.window > 0 ? max(0, past + first / a.group - a.window + 1) / S::kKeys * S::kKeys : 0;

  std::byte* shared = shared_memory<std::byte>();
  const int32_t* table = a.page_table + static_cast<int64_t>(seq) * a.pages_per_seq;
  const auto pages_of = [&](int at) {
    const int p = at + 16 * lane;
    return lane < S::kKeys / 16 && p < keys_end ? table[p / a.kv.page_rows] : 0;
  };
  copy_step<S>(a, shared + S::kRing, kv_head, key, keys_end, pages_of(key));
  commit_copies();
  load_queries<S::kBf16, S::kDim>(a, shared + S::kQueries, q_begin, kv_head, first, kRowsTile, end);
  WarpRows<S::kDim, S::kTiles> rows;
  const int mine = first + 16 * S::kTiles * warp;
  rows.clear();
  rows.find_positions(a, q_begin, mine, end, keys_end);
  const std::byte* queries = shared + S::kQueries + 16 * S::kTiles * warp * S::Rows::kStride;
  const auto fragment = [&](uint32_t(&q)[4], int m, int kk) {
    query_fragment<S::kDim>(q, queries + 16 * m * S::Rows::kStride, kk);
  };

  int pages = pages_of(key + S::kKeys);
  for (int step = 0; key < keys_end; key += S::kKeys, ++step) {
    std::byte* now = shared + S::kRing + step % 2 * 2 * S::kStepBytes;
    std::byte* next = shared + S::kRing + (step + 1) % 2 * 2 * S::kStepBytes;
    if (key + S::kKeys < keys_end) {
      copy_step<S>(a, next, kv_head, key + S::kKeys, keys_end, pages);
      pages = pages_of(key + 2 * S::kKeys);
    }
    commit_copies();
    copies_done<1>();
    __syncthreads();
    // Warps of padding, and those whose rows all come before these keys, have nothing to do.
    if (key <= rows.any_last) {
      for (int i = 0; i < S::kKeys; i += S::kAtOnce) {
        const std::byte* k = now + i * S::Rows::kStride;
        attend_keys<S::kBf16, S::kDim, S::kTiles, S::kAtOnce>(a, rows, k, k + S::kStepBytes, key + i, fragment);
      }
    }
    __syncthreads();
  }
  store_rows<S>(a, rows, q_begin, kv_head, mine, end);
}

template <bool kBf16, int kDim>
void launch_rows(const Ctx& ctx, const AttentionArgs& a, int64_t tiles) {
  using S = RowsShape<kBf16, kDim>;
  launch(ctx, attend_rows<S>,
         {dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(a.kv_heads)), dim3(S::kThreads), S::kBytes}, a);
}

template <bool kBf16>
void launch_rows(const Ctx& ctx, const AttentionArgs& a, int64_t tiles) {
  switch (a.kv.k_dim) {
    case 64:
      return launch_rows<kBf16, 64>(ctx, a, tiles);
    case 96:
      return launch_rows<kBf16, 96>(ctx, a, tiles);
    case 128:
      return launch_rows<kBf16, 128>(ctx, a, tiles);
    default:
      CHECK(a.kv.k_dim == 256, "heads of {}", a.kv.k_dim);
      return launch_rows<kBf16, 256>(ctx, a, tiles);
  }
}

}  // namespace ingot::cuda
