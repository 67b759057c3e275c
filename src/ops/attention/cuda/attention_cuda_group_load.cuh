// Attention of many rows by warpgroups (attention_cuda_group.cuh): the warpgroup that copies.
#pragma once

#include "ops/attention/cuda/attention_cuda_group_copy.cuh"

namespace ingot::cuda {

// A warp's share of queries of another type. The loads of kLoads rows are on their way before the first of them is
// narrowed: one after another, those of f32 took longer than an item of 512 keys.
template <class S, DType kFrom, class F>
__device__ inline void narrow_queries(const AttentionArgs& a, PackedWalk at, const F& from, std::byte* to, int first,
                                      int piece, int count) {
  constexpr int kAtOnce = 32 / S::kPieces, kTimes = kRowsTile / 4 / kAtOnce;
  // Queries of f32 over f16: 32 x 512 rows took 333 us with 4, 256 with 8.
  constexpr int kLoads = S::kCache == DType::kF16 ? 8 : 4;
  constexpr int kWords = kFrom == DType::kF32 ? 2 : 1;
#pragma unroll 1
  for (int j = 0; j < kTimes; j += kLoads) {
    uint4 bits[kLoads][kWords];
#pragma unroll
    for (int i = 0; i < kLoads; ++i, at.next(a)) {
      const auto* words = reinterpret_cast<const uint4*>(from(at));
#pragma unroll
      for (int w = 0; w < kWords; ++w) bits[i][w] = (j + i) * kAtOnce < count ? words[w] : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      *reinterpret_cast<uint4*>(to + panel_piece(first + (j + i) * kAtOnce, piece, S::kQueryPanel)) =
          narrow_bits<S::kBf16, kFrom>(bits[i]);
  }
}

// A warp's share of an item's queries, zeros for rows of padding. True where they come by copies that are in flight.
template <class S>
__device__ inline bool copy_queries(const AttentionArgs& a, const RowsItem& item, std::byte* to) {
  constexpr int kAtOnce = 32 / S::kPieces, kTimes = kRowsTile / 4 / kAtOnce;  // 2 or 4 rows
  const int thread = static_cast<int>(threadIdx.x), piece = thread % S::kPieces;
  const int first = thread / 32 * (kRowsTile / 4) + thread % 32 / S::kPieces, count = item.end - item.first - first;
  const int bytes = a.q.dtype == DType::kF32 ? 4 : 2;
  const int stride = static_cast<int>(a.q.stride) * bytes;  // an item's rows are fewer than 2^31 bytes
  const std::byte* rows = a.q.row(item.q_begin + item.row) + (item.kv_head * a.group * S::kDim + piece * 8) * bytes;
  const auto from = [&](const PackedWalk& at) { return rows + (at.row * stride + at.head * (S::kDim * bytes)); };
  PackedWalk at(a, item, first, kAtOnce);
  if (S::kBoxed || a.q.dtype == S::kType) {
#pragma unroll(S::kBoxed ? 1 : 4)
    for (int j = 0; j < kTimes; ++j, at.next(a)) {
      const bool valid = j * kAtOnce < count;
      copy_async(to + panel_piece(first + j * kAtOnce, piece, S::kQueryPanel), valid ? from(at) : rows, valid);
    }
    return true;
  }
  if constexpr (S::kBoxed) return true;
  if (a.q.dtype == DType::kF32) {
    narrow_queries<S, DType::kF32>(a, at, from, to, first, piece, count);
  } else {
    narrow_queries<S, S::kBf16 ? DType::kF16 : DType::kBF16>(a, at, from, to, first, piece, count);
  }
  shared_writes_done();
  return false;
}

// An item's keys and values, a warp's matrices of them. The four warps have keys, values, the next step's keys and its
// values: what a warp does before it can start its copies takes it longer than the products of a short step do. The
// copies themselves arrive at the barriers. The fence that the products need after ordinary writes is made by who waits
// there: here it would wait for all copies that are in flight.
// `filled`: slots before it. begin_last() is called once, before the warp's last matrix.
template <class S, int kKeys, class F>
__device__ inline void copy_steps(const AttentionArgs& a, const GroupMaps& maps, const RowsItem& item, std::byte* slots,
                                  GroupControl<S>& control, int filled, F&& begin_last) {
  constexpr int kEach = kKeys / S::kKeys;  // slots of a matrix
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool values = warp % 2 != 0;
  const GroupSteps<S> steps(item);
  int step = (warp / 2 ^ filled / 2) & 1, key = steps.key(step);
  StepPages pages;
  if (step < steps.count) {
    pages = StepPages::of<S, kKeys>(a, item, key);
  } else {
    begin_last();
  }
#pragma unroll 1
  for (; step < steps.count; step += 2, key -= 2 * kKeys) {
    const StepPages now = pages;
    if (step + 2 < steps.count) {
      pages = StepPages::of<S, kKeys>(a, item, key - 2 * kKeys);
    } else {
      begin_last();
    }
    const int matrix = filled + (2 * step + warp % 2) * kEach, to = matrix % S::kSlots;
    const auto ready = [&] {
#pragma unroll
      for (int i = 0; i < kEach; ++i) barrier_wait(&control.empty[to + i], (matrix / S::kSlots & 1) ^ 1);
    };
    std::byte* place = slots + to * S::kSlotBytes;
    if constexpr (S::kCoded) {
      CodeRowsCopy<S>(a, item, now, key, values).run(place, ready);
      barrier_arrive(&control.full[to]);
    } else if constexpr (S::kBoxed) {
      ready();
      copy_boxes<S, kKeys>(a, item, place, &control.full[to], key, now, values, maps);
    } else {
      ready();
      copy_rows<S>(a, item, place, key, now, values);
      barrier_arrive_after_copies(&control.full[to]);
    }
  }
}

// The first warpgroup: items one after another, the block's own first and then whichever nobody has taken, those with
// the most keys first. One is taken before the last copies of the one before: earlier, blocks with many keys would take
// as many as blocks with few; later, items of few keys would wait for it.
template <class S>
__device__ inline void copy_items(const AttentionArgs& a, const GroupMaps& maps, std::byte* shared,
                                  GroupControl<S>& control) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto find = [&](TileFinder finder, int index, RowsItem& to) {
    RowsItem item;
    const int tile = index / a.kv_heads;
    item.kv_head = index - tile * a.kv_heads;
    if (!finder.find(a, tile, S::kKeys, item)) item.seq = -1;
    control.finders[thread] = finder;
    if (thread == 0) to = item;
  };
  if (thread < 32) find(TileFinder(a), static_cast<int>(blockIdx.x), control.items[0]);
  wait_for_inputs();
  int filled = 0;  // slots
  for (int turn = 0;; ++turn) {
    const int slot = turn % 2;
    const RowsItem& item = control.items[turn % S::kItems];
    barrier_wait(&control.queries_empty[slot], (turn / 2 & 1) ^ 1);
    barrier_some(1, 128);
    const bool found = item.seq >= 0;
    if (thread == 0) barrier_arrive(&control.queries_full[slot]);
    if (found && copy_queries<S>(a, item, shared + slot * S::kQueryBytes)) {
      barrier_arrive_after_copies(&control.queries_full[slot]);
    } else {
      barrier_arrive(&control.queries_full[slot]);
    }
    if (!found) break;
    uint32_t claimed = 0;
    const auto claim = [&] {
      if (thread == 0) claimed = atomicAdd(&a.tickets[0], 1u);
    };
    const GroupSteps<S> steps(item);
    if (S::kBoxed && steps.keys == S::kLongKeys) {
      copy_steps<S, S::kLongKeys>(a, maps, item, shared + S::kRing, control, filled, claim);
    } else {
      copy_steps<S, S::kKeys>(a, maps, item, shared + S::kRing, control, filled, claim);
    }
    filled += 2 * steps.count * steps.slots();
    if (thread < 32)
      find(control.finders[thread], static_cast<int>(gridDim.x + __shfl_sync(0xffffffffu, claimed, 0)),
           control.items[(turn + 1) % S::kItems]);
  }
  // The last block to have found no more leaves zeros behind.
  if (thread == 0 && atomicInc(&a.tickets[1], gridDim.x - 1) == gridDim.x - 1) a.tickets[0] = 0;
}

}  // namespace ingot::cuda
