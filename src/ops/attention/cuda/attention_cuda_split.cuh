// Attention of a few packed rows over many keys (flash-decoding). A block takes one item: 16 or 32 packed rows of a seq
// and KV head, and one split of their keys. Its four groups of one or two warps take 16 keys in turn, each with a ring
// of its own in shared memory, so that no group waits for another; their results meet in shared memory. Where there are
// several splits the last block to arrive merges them, in order.
#pragma once

#include "ops/attention/cuda/attention_cuda_parts.cuh"

namespace ingot::cuda {

// A group's way of its tiles through its ring.
template <class S>
struct SplitRing {
  using Rows = typename S::KvRows;
  const AttentionArgs& a;
  std::byte* ring;
  CopyBarrier* barriers;
  const int32_t* table;  // pages of the seq
  int kv_head;
  int group, warp;         // the warp of the group: the first one copies
  int begin = 0, end = 0;  // keys of this split
  int tiles = 0;           // of this group
  int most = 0;            // of any group
  int before = 0;          // tiles of earlier splits
  int given = 0;           // tiles in flight or done, at the start
  int pages = 0;           // lane i: the page of tile 32j + i

  __device__ int key(int i) const { return begin + (group + kGroups * i) * kTileKeys; }
  __device__ std::byte* stage(int i) const { return ring + (before + i) % S::kStages * S::kStageBytes; }

  // The first tiles of a split on their way, up to the first one with a key at `known` or behind it.
  __device__ void start(int from, int to, int known) {
    before += tiles;
    begin = from;
    end = to;
    const int all = to > from ? (to - from + kTileKeys - 1) / kTileKeys : 0;
    tiles = all > group ? (all - group + kGroups - 1) / kGroups : 0;
    most = (all + kGroups - 1) / kGroups;
    for (given = 0; given < S::kStages && min(key(given) + kTileKeys, end) <= known; ++given) issue(given);
  }
  __device__ void start_rest() {
    for (; given < S::kStages; ++given) issue(given);
  }
  // Tile i on its way; nothing where there is none. The group's stage is free.
  __device__ void issue(int i) {
    if (warp != 0) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (i < tiles) {
      if (i % 32 == 0) pages = i + lane < tiles ? table[key(i + lane) / a.kv.page_rows] : 0;
      const int page = __shfl_sync(0xffffffffu, pages, i % 32);
      // A page that the window has left behind is none: the first tiles may reach back to it.
      const int place = key(i) % a.kv.page_rows, valid = page < 0 ? 0 : min(kTileKeys, end - key(i));
      const std::byte* k_page = a.kv.k_rows(max(page, 0), kv_head);
      const std::byte* v_page = a.kv.v_rows(max(page, 0), kv_head);
      const std::byte* k = k_page + static_cast<int64_t>(place) * S::kRowBytes;
      const std::byte* v = v_page + static_cast<int64_t>(place) * S::kRowBytes;
      CopyBarrier* barrier = barriers + (before + i) % S::kStages;
      copy(stage(i), k, v, valid, barrier);
      if constexpr (S::kScaleBytes > 0) {
        const int64_t scales = static_cast<int64_t>(a.kv.page_rows) * S::kRowBytes + place / kTileKeys * S::kScaleBytes;
        copy_scales(stage(i) + 2 * S::kTileBytes, k_page + scales, v_page + scales, valid, barrier);
      }
    }
    if constexpr (!S::kBulk) commit_copies();
  }
  // Those of a whole tile come by copies; of a part one by one, zeros behind the last key.
  __device__ void copy_scales(std::byte* to, const std::byte* k, const std::byte* v, int valid, CopyBarrier* barrier) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int kEach = S::kDim / kQ8Block;
    if (valid < kTileKeys) {
#pragma unroll 1
      for (int i = lane; i < kTileKeys * kEach; i += 32) {
        const bool there = i / kEach < valid;
        const auto move = [&](std::byte* room, const std::byte* from) {
          reinterpret_cast<uint16_t*>(room)[i] = there ? reinterpret_cast<const uint16_t*>(from)[i] : uint16_t{0};
        };
        move(to, k);
        move(to + S::kScaleBytes, v);
      }
    } else if constexpr (S::kBulk) {
      if (lane == 0) {
        copy_bulk(to, k, S::kScaleBytes, barrier);
        copy_bulk(to + S::kScaleBytes, v, S::kScaleBytes, barrier);
      }
    } else {
      constexpr int kPieces = S::kScaleBytes / 16;  // 4, 6, 8 or 16
      if (lane < 2 * kPieces) copy_async(to + lane * 16, lane < kPieces ? k + lane * 16 : v + (lane - kPieces) * 16);
    }
  }
  // Values of keys that nobody sees become zeros: what lies in the cache there may be no number.
  __device__ void copy(std::byte* to, const std::byte* k, const std::byte* v, int valid, CopyBarrier* barrier) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (S::kBulk) {
      const uint32_t bytes = static_cast<uint32_t>(valid * S::kRowBytes);
      if (lane == 0) {
        barrier_expect(barrier, 2 * (bytes + (valid == kTileKeys ? S::kScaleBytes : 0)));
        if (bytes > 0) {
          copy_bulk(to, k, bytes, barrier);
          copy_bulk(to + S::kTileBytes, v, bytes, barrier);
        }
      }
      for (int i = static_cast<int>(bytes) + 16 * lane; i < S::kTileBytes; i += 16 * 32)
        *reinterpret_cast<uint4*>(to + S::kTileBytes + i) = make_uint4(0, 0, 0, 0);
    } else {
      for (int i = lane; i < kTileKeys * Rows::kPieces; i += 32) {
        const int row = i / Rows::kPieces, piece = i % Rows::kPieces;
        const int at = row * Rows::kStride + piece * 16, from = row * S::kRowBytes + piece * 16;
        copy_async(to + at, row < valid ? k + from : k, row < valid);
        copy_async(to + S::kTileBytes + at, row < valid ? v + from : v, row < valid);
      }
    }
  }
  // `more`: tiles behind it that are waited for as well, before anything more is on its way.
  template <int kMore = 0>
  __device__ void wait(int i) {
    if constexpr (S::kBulk) {
      if (i < tiles)
        barrier_wait(barriers + (before + i) % S::kStages, static_cast<uint32_t>((before + i) / S::kStages) & 1);
    } else {
      copies_done<S::kStages - 1 - kMore>();
    }
    meet();  // copies of other lanes; zeros behind the last key
  }
  __device__ void meet() {
    if constexpr (S::kWide) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }
};

template <class S>
__device__ inline void split_query(uint32_t (&q)[4], const std::byte* queries, int kk) {
  if constexpr (S::kCoded) {
    code_query_fragment<S::kDim>(q, queries, kk);
  } else {
    query_fragment<S::kDim>(q, queries, kk);
  }
}

// Tile i of a ring of codes, and the one behind it where there is one; the number of stages that are free then.
template <class S, class F>
__device__ inline int attend_coded(const AttentionArgs& a, WarpRows<S::kDim, 1>& rows, SplitRing<S>& ring, int i,
                                   int steps, F&& fragment) {
  constexpr int kApart = (kGroups - 1) * kTileKeys;
  const auto tile = [&](int which) {
    const std::byte* at = ring.stage(which);
    const std::byte* scales = at + 2 * S::kTileBytes;
    return CodeTile{at, at + S::kTileBytes, scales, scales + S::kScaleBytes};
  };
  ring.wait(i);
  if (i + 1 < steps) ring.template wait<1>(i + 1);
  if (i + 1 < ring.tiles) {
    const CodeTile tiles[2] = {tile(i), tile(i + 1)};
    attend_codes<S::kType, S::kDim, kApart>(a, rows, tiles, ring.key(i), fragment);
  } else if (i < ring.tiles) {
    const CodeTile tiles[1] = {tile(i)};
    attend_codes<S::kType, S::kDim, kApart>(a, rows, tiles, ring.key(i), fragment);
  }
  return i + 1 < steps ? 2 : 1;
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kLeastBlocks) attend_split(AttentionArgs a) {
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  const int warp_id = static_cast<int>(threadIdx.x) / 32;
  const int group = warp_id / S::kGroupWarps, warp = warp_id % S::kGroupWarps;
  CopyBarrier* barriers = reinterpret_cast<CopyBarrier*>(shared + S::kBarriers);
  if (S::kBulk && threadIdx.x == 0) {
    for (int i = 0; i < kGroups * S::kStages; ++i) barrier_init(barriers + i, 1);
    barrier_inits_done();
  }
  __syncthreads();
  // The batch's tables were there before the step's first kernel, as were the keys and values of all positions but this
  // step's own: earlier kernels write nothing else of the cache. So the ring fills while they still run.
  SplitItem item;
  if (!item.find(a, S::kPacked)) return wait_for_inputs();  // a later kernel relies on this one having waited
  const int splits_end = a.fold ? item.n_splits : item.split + 1;

  SplitRing<S> ring{a,
                    shared + S::kRing + group * S::kRingBytes,
                    barriers + group * S::kStages,
                    a.page_table + static_cast<int64_t>(item.seq) * a.pages_per_seq,
                    item.kv_head,
                    group,
                    warp};
  const auto begin_split = [&](int i, int known) {
    const int begin = item.split_begin + i * item.split_keys;
    ring.start(max(begin, item.keys_begin), min(begin + item.split_keys, item.keys_end), known);
  };
  begin_split(item.split, item.past);
  WarpRows<S::kDim, 1> rows;
  rows.find_positions(a, item.q_begin, item.first + 16 * warp, item.end, item.keys_end);
  wait_for_inputs();
  ring.start_rest();
  load_queries<S::kBf16, S::kDim>(a, shared + S::kQueries, item.q_begin, item.kv_head, item.first, S::kPacked,
                                  item.end);
  __syncthreads();
  const std::byte* queries = shared + S::kQueries + 16 * warp * S::Rows::kStride;
  // A head of 256 leaves no registers for its queries.
  constexpr bool kKept = S::kDim <= 128;
  uint32_t kept[kKept ? S::kDim / 16 : 1][4];
  if constexpr (kKept) {
#pragma unroll
    for (int kk = 0; kk < S::kDim / 16; ++kk) split_query<S>(kept[kk], queries, kk);
  }
  const auto fragment = [&](uint32_t(&q)[4], int, int kk) {
    if constexpr (kKept) {
      for (int i = 0; i < 4; ++i) q[i] = kept[kk][i];
    } else {
      split_query<S>(q, queries, kk);
    }
  };

  for (int split = item.split; split < splits_end; ++split) {
    if (split > item.split) begin_split(split, item.keys_end);
    rows.clear();
    // Where the whole block meets for each tile, every group counts the first one's, which has the most.
    const int steps = S::kWide ? ring.most : ring.tiles;
    if constexpr (S::kCoded) {
      for (int i = 0, done; i < steps; i += done) {
        done = attend_coded<S>(a, rows, ring, i, steps, fragment);
        ring.meet();
        ring.issue(i + S::kStages);
        if (done > 1) ring.issue(i + 1 + S::kStages);
      }
    } else {
      for (int i = 0; i < steps; ++i) {
        ring.wait(i);
        const std::byte* tile = ring.stage(i);
        if (i < ring.tiles)
          attend_keys<S::kBf16, S::kDim, 1, kTileKeys>(a, rows, tile, tile + S::kTileBytes, ring.key(i), fragment);
        ring.meet();
        ring.issue(i + S::kStages);
      }
    }
    SplitResult<S::kDim> result;
    meet_groups<S>(rows, result, shared, group, warp);
    if (!a.fold && item.n_splits > 1) return leave_part<S>(a, item, result, shared);
    if (a.fold) fold_result<S>(result, shared, split == item.split);
    const int packed = item.first + static_cast<int>(threadIdx.x) / 8;
    if (split + 1 < splits_end || packed >= item.end) continue;
    const float factor = last_factor(a, item.kv_head * a.group + packed % a.group, result.top, result.sum);
    for (int j = 0; j < S::kDim / 32; ++j)
      store_result(a, item, packed, static_cast<int>(threadIdx.x) % 8 * 4 + 32 * j, result.x[j], factor);
  }
}

template <class S>
void launch_split(const Ctx& ctx, const AttentionArgs& a) {
  launch(ctx, attend_split<S>, {a.grid, dim3(S::kThreads), a.fold ? S::kFoldBytes : S::kBytes}, a);
}

template <DType kType, int kDim>
void launch_split(const Ctx& ctx, const AttentionArgs& a, bool wide, bool bulk) {
  if constexpr (kDim % 64 == 0) {
    if (bulk) {
      if constexpr (kDim <= 128) {
        if (wide) return launch_split<SplitShape<kType, kDim, true, true>>(ctx, a);
      }
      return launch_split<SplitShape<kType, kDim, false, true>>(ctx, a);
    }
  }
  if constexpr (kDim <= 128) {
    if (wide) return launch_split<SplitShape<kType, kDim, true, false>>(ctx, a);
  }
  launch_split<SplitShape<kType, kDim, false, false>>(ctx, a);
}

template <DType kType>
void launch_split(const Ctx& ctx, const AttentionArgs& a, bool wide, bool bulk) {
  switch (a.kv.k_dim) {
    case 64:
      return launch_split<kType, 64>(ctx, a, wide, bulk);
    case 96:
      return launch_split<kType, 96>(ctx, a, wide, bulk);
    case 128:
      return launch_split<kType, 128>(ctx, a, wide, bulk);
    default:
      CHECK(a.kv.k_dim == 256, "heads of {}", a.kv.k_dim);
      return launch_split<kType, 256>(ctx, a, wide, bulk);
  }
}

}  // namespace ingot::cuda
