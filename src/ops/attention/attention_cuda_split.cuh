// Attention of a few packed rows over many keys (flash-decoding). A block takes segments of keys one after another,
// each of 16 or 32 packed rows of a seq and KV head. Its four groups of one or two warps take 16 keys in turn, each
// with a ring of its own in shared memory, so that no group waits for another; at the end of a segment their results
// meet in shared memory, while the first tiles of the next segment are already on their way. Where a unit has several
// segments the last block to arrive merges them, in order.
#pragma once

#include "ops/attention/attention_cuda_parts.cuh"

namespace ingot::cuda {

// The tiles of a segment as one group takes them.
struct SplitTiles {
  int begin = 0, end = 0;  // keys
  int slots = 0;
  int kv_head = 0;
  int pages = 0;  // lane i: the page of tile 32j + i
  const int32_t* table = nullptr;

  __device__ int key(int group, int i) const { return begin + (group + kGroups * i) * kTileKeys; }
  __device__ void take(const AttentionArgs& a, const SplitSegment& s, int group) {
    slots = s.slots;
    if (slots == 0) return;
    begin = s.keys_begin;
    end = s.keys_end;
    kv_head = s.kv_head;
    table = a.page_table + static_cast<int64_t>(s.seq) * a.pages_per_seq;
    find_pages(a, group, 0);
  }
  __device__ void find_pages(const AttentionArgs& a, int group, int i) {
    const int at = key(group, i + static_cast<int>(threadIdx.x) % 32);
    pages = at < end ? __ldg(table + at / a.kv.page_rows) : 0;
  }
};

// A group's way of its tiles through its ring. Slots are counted over all segments; slot n is stage n % kStages.
template <class S>
struct SplitRing {
  using Rows = typename S::Rows;
  const AttentionArgs& a;
  std::byte* shared;
  int group, warp;                 // the first warp of a group copies
  int before = 0;                  // slots of earlier segments
  int given = 0;                   // slots on their way or done
  SplitTiles now = {}, then = {};  // the segment in work and the next

  __device__ std::byte* stage(int of_group, int slot) const {
    return shared + S::kRing + of_group * S::kRingBytes + slot % S::kStages * S::kStageBytes;
  }
  __device__ CopyBarrier* barrier(int slot) const {
    return reinterpret_cast<CopyBarrier*>(shared + S::kBarriers) + group * S::kStages + slot % S::kStages;
  }

  // Tiles on their way until `limit` slots are given, of both segments.
  __device__ void fill(int limit) {
    for (; given < min(limit, before + now.slots); ++given) issue(now, given - before);
    for (; given < min(limit, before + now.slots + then.slots); ++given) issue(then, given - before - now.slots);
  }
  // The first tiles, up to one with a key at `known` or behind it; the keys before it in that tile are on their way
  // into the cache.
  __device__ void fill_known(int known) {
    for (; given < min(S::kStages, now.slots); ++given) {
      const int key = now.key(group, given);
      if (min(key + kTileKeys, now.end) > known) return fetch(now, given, known - key);
      issue(now, given);
    }
  }
  // The next segment, where there is one, becomes the one in work.
  __device__ void move_on() {
    before += now.slots;
    now = then;
    then.slots = 0;
  }

  // By whole warps.
  __device__ void issue(SplitTiles& t, int i) {
    if (warp == 0) {
      const int key = t.key(group, i);
      if (key < t.end) {
        if (i % 32 == 0 && i > 0) t.find_pages(a, group, i);
        const int page = __shfl_sync(0xffffffffu, t.pages, i % 32), place = key % a.kv.page_rows;
        // A page that the window has left behind is none: the first tiles may reach back to it.
        copy(given, rows(a.kv.k_rows(max(page, 0), t.kv_head), place),
             rows(a.kv.v_rows(max(page, 0), t.kv_head), place), page < 0 ? 0 : min(kTileKeys, t.end - key));
      } else if (S::kBulk && threadIdx.x % 32 == 0) {
        barrier_expect(barrier(given), 0);
      }
    }
    if constexpr (!S::kBulk) commit_copies();
  }
  __device__ void fetch(const SplitTiles& t, int i, int keys) {
    const int page = __shfl_sync(0xffffffffu, t.pages, i % 32), place = t.key(group, i) % a.kv.page_rows;
    if (!S::kBulk || warp != 0 || threadIdx.x % 32 != 0 || page < 0 || keys <= 0 || t.key(group, i) >= t.end) return;
    fetch_bulk(rows(a.kv.k_rows(page, t.kv_head), place), static_cast<uint32_t>(keys * 2 * S::kDim));
    fetch_bulk(rows(a.kv.v_rows(page, t.kv_head), place), static_cast<uint32_t>(keys * 2 * S::kDim));
  }
  __device__ static const std::byte* rows(const std::byte* of_page, int place) {
    return of_page + static_cast<int64_t>(place) * (2 * S::kDim);
  }
  // Values of keys that nobody sees become zeros: what lies in the cache there may be no number.
  __device__ void copy(int slot, const std::byte* k, const std::byte* v, int valid) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    std::byte* to = stage(group, slot);
    if constexpr (S::kBulk) {
      const uint32_t bytes = static_cast<uint32_t>(valid * 2 * S::kDim);
      if (lane == 0) {
        barrier_expect(barrier(slot), 2 * bytes);
        if (bytes > 0) {
          copy_bulk(to, k, bytes, barrier(slot));
          copy_bulk(to + S::kTileBytes, v, bytes, barrier(slot));
        }
      }
      if (valid == kTileKeys) return;
      for (int i = static_cast<int>(bytes) + 16 * lane; i < S::kTileBytes; i += 16 * 32)
        *reinterpret_cast<uint4*>(to + S::kTileBytes + i) = make_uint4(0, 0, 0, 0);
      stores_before_copies();
    } else {
      for (int i = lane; i < kTileKeys * Rows::kPieces; i += 32) {
        const int row = i / Rows::kPieces, piece = i % Rows::kPieces;
        const int at = row * Rows::kStride + piece * 16, from = row * 2 * S::kDim + piece * 16;
        copy_async(to + at, row < valid ? k + from : k, row < valid);
        copy_async(to + S::kTileBytes + at, row < valid ? v + from : v, row < valid);
      }
    }
  }
  __device__ void wait(int slot) {
    if constexpr (S::kBulk) {
      barrier_wait(barrier(slot), static_cast<uint32_t>(slot / S::kStages) & 1);
    } else {
      const int newer = given - slot - 1;
      if (newer == 0) {
        copies_done<0>();
      } else if (newer == 1) {
        copies_done<1>();
      } else if (newer == 2) {
        copies_done<2>();
      } else {
        copies_done<3>();
      }
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

// The packed rows of a segment, by all of the block's threads: first on their way into registers, then in shared
// memory.
template <class S>
struct SplitQueries {
  static constexpr int kPieces = S::kDim / 8, kAll = S::kPacked * kPieces;
  static constexpr int kMine = (kAll + S::kThreads - 1) / S::kThreads;
  uint4 bits[kMine];

  __device__ void load(const AttentionArgs& a, const SplitSegment& s) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * S::kThreads;
      bits[i] = query_piece<S::kBf16, S::kDim>(a, s.q_begin, s.kv_head, s.first + at / kPieces, at % kPieces, s.end);
    }
  }
  __device__ void store(std::byte* to) const {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * S::kThreads;
      if (at < kAll) *reinterpret_cast<uint4*>(to + S::Rows::at(at / kPieces, at % kPieces)) = bits[i];
    }
  }
};

// What a block takes from one segment to the next.
template <class S>
struct SplitBlock {
  const AttentionArgs& a;
  std::byte* shared;

  __device__ SplitList& list() const { return *reinterpret_cast<SplitList*>(shared + S::kList); }
  __device__ SplitSegment& segment(int k) const {
    return reinterpret_cast<SplitSegment*>(shared + S::kSegments)[k % kKeptSegments];
  }
  __device__ void find(int k) const { list().template next<S::kPacked, S::kResultStages>(a, segment(k)); }
  __device__ void find_positions(WarpRows<S::kDim, 1>& rows, const SplitThread<S>& me, int k) const {
    const SplitSegment& s = segment(k);
    rows.find_positions(a, s.q_begin, s.first + 16 * me.warp, s.end, s.seen_end);
  }
  // The barriers of copies, and the first segment.
  __device__ void begin() const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 0) {
      list().template begin<S::kPacked>(a);
      if (threadIdx.x == 0) find(0);
    } else if (S::kBulk && threadIdx.x == 32) {
      CopyBarrier* barriers = reinterpret_cast<CopyBarrier*>(shared + S::kBarriers);
      for (int i = 0; i < kGroups * S::kStages; ++i) barrier_init(barriers + i, 1);
      barrier_inits_done();
    }
    __syncthreads();
  }
};

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) attend_split(AttentionArgs a) {
  let_next_begin();
  std::byte* shared = shared_memory<std::byte>();
  const SplitThread<S> me;
  const SplitBlock<S> block{a, shared};
  // The batch's tables were there before the step's first kernel, as were the keys and values of all positions but this
  // step's own: the kernels in front write nothing else of the cache. So the ring fills while they still run.
  block.begin();
  if (block.segment(0).slots == 0) return wait_for_inputs();  // a later kernel relies on this one having waited
  SplitRing<S> ring{a, shared, me.group, me.warp};
  ring.now.take(a, block.segment(0), me.group);
  if ((a.trial & 16) == 0) ring.fill_known(block.segment(0).past);
  if (threadIdx.x == 0) block.find(1);
  WarpRows<S::kDim, 1> rows;
  block.find_positions(rows, me, 0);
  wait_for_inputs();
  SplitQueries<S> loaded;
  loaded.load(a, block.segment(0));
  ring.fill(S::kStages);

  const std::byte* queries = shared + S::kQueries + 16 * me.warp * S::Rows::kStride;
  for (int k = 0;; ++k) {
    const SplitSegment& s = block.segment(k);
    loaded.store(shared + S::kQueries);
    rows.clear();
    __syncthreads();
    ring.then.take(a, block.segment(k + 1), me.group);
    // A head of 256 leaves no registers for its queries.
    constexpr bool kKept = S::kDim <= 128;
    uint32_t kept[kKept ? S::kDim / 16 : 1][4];
    if constexpr (kKept) {
#pragma unroll
      for (int kk = 0; kk < S::kDim / 16; ++kk) query_fragment<S::kDim>(kept[kk], queries, kk);
    }
    const auto fragment = [&](uint32_t(&q)[4], int, int kk) {
      if constexpr (kKept) {
        for (int i = 0; i < 4; ++i) q[i] = kept[kk][i];
      } else {
        query_fragment<S::kDim>(q, queries, kk);
      }
    };
    const int slots = ring.now.slots;
    for (int i = 0; i < slots; ++i) {
      ring.wait(ring.before + i);
      const int key = ring.now.key(me.group, i);
      const std::byte* tile = ring.stage(me.group, ring.before + i);
      if (key < ring.now.end)
        attend_keys<S::kBf16, S::kDim, 1, kTileKeys>(a, rows, tile, tile + S::kTileBytes, key, fragment);
      ring.meet();
      ring.fill(ring.before + min(i + 1, slots - S::kResultStages) + S::kStages);
    }
    SplitResult<S> result;
    meet_groups<S>(rows, result, me, shared,
                   [&](int group, int warp) { return ring.stage(group, ring.before + slots - 1 - warp); });
    stores_before_copies();
    __syncthreads();
    if (a.clusters) return merge_cluster<S>(a, s, me, result, shared);
    ring.move_on();
    ring.fill(ring.before + S::kStages);
    const bool more = ring.now.slots > 0;
    if (more) {
      loaded.load(a, block.segment(k + 1));
      if (threadIdx.x == 0) block.find(k + 2);
      block.find_positions(rows, me, k + 1);
    }
    if (a.fold) fold_result<S>(result, me, shared, s.split == 0);
    if (!a.fold && s.n_splits > 1) {
      leave_part<S>(a, s, me, result, shared);
    } else if (!a.fold || s.split + 1 == s.n_splits) {
      store_result<S>(a, s, me, result);
    }
    if (!more) return;
  }
}

template <class S>
void launch_split(const Ctx& ctx, const AttentionArgs& a) {
  launch(ctx, attend_split<S>,
         {a.grid, dim3(S::kThreads), a.fold ? S::kFoldBytes : S::kBytes, a.clusters ? kClusterBlocks : 1}, a);
}

template <bool kBf16, int kDim>
void launch_split(const Ctx& ctx, const AttentionArgs& a, bool wide, bool bulk) {
  if constexpr (kDim % 64 == 0) {
    if (bulk) {
      if constexpr (kDim <= 128) {
        if (wide) return launch_split<SplitShape<kBf16, kDim, true, true>>(ctx, a);
      }
      return launch_split<SplitShape<kBf16, kDim, false, true>>(ctx, a);
    }
  }
  if constexpr (kDim <= 128) {
    if (wide) return launch_split<SplitShape<kBf16, kDim, true, false>>(ctx, a);
  }
  launch_split<SplitShape<kBf16, kDim, false, false>>(ctx, a);
}

template <bool kBf16>
void launch_split(const Ctx& ctx, const AttentionArgs& a, bool wide, bool bulk) {
  switch (a.kv.k_dim) {
    case 64:
      return launch_split<kBf16, 64>(ctx, a, wide, bulk);
    case 96:
      return launch_split<kBf16, 96>(ctx, a, wide, bulk);
    case 128:
      return launch_split<kBf16, 128>(ctx, a, wide, bulk);
    default:
      CHECK(a.kv.k_dim == 256, "heads of {}", a.kv.k_dim);
      return launch_split<kBf16, 256>(ctx, a, wide, bulk);
  }
}

}  // namespace ingot::cuda
