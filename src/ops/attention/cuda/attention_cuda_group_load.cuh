// Attention of many rows by warpgroups (attention_cuda_group.cuh): what lies in shared memory, and the warpgroup that
// fills it.
#pragma once

#include "cuda/wgmma.cuh"
#include "ops/attention/cuda/attention_cuda_codes.cuh"
#include "ops/attention/cuda/attention_cuda_rows_warp.cuh"

namespace ingot::cuda {

template <DType kCache_, int kDim_>
struct GroupShape {
  static constexpr DType kCache = kCache_;
  static constexpr bool kBf16 = kCache == DType::kBF16, kCoded = kv_is_coded(kCache);
  static constexpr int kDim = kDim_;
  static constexpr DType kType = kBf16 ? DType::kBF16 : DType::kF16;  // of what is multiplied
  static constexpr int kPieces = kDim / 8;                            // of a row
  static constexpr int kKeys = 64;                                    // of a step

  static constexpr int kThreads = 3 * 128;  // one warpgroup copies, two have 64 packed rows each
  static constexpr int kTakers = 8;         // warps of the two
  // Of a thread that copies, and of one that multiplies; together what 168 of each would be.
  static constexpr int kFewRegisters = kBf16 ? 72 : 120, kManyRegisters = kBf16 ? 216 : 192;

  // Matrices lie in panels of 64 columns (MatrixPlace). Queries of two items; keys and values of steps in turn.
  static constexpr int kQueryPanel = kRowsTile * 128, kQueryBytes = kDim / 64 * kQueryPanel;
  static constexpr int kPanel = kKeys * 128, kSlotBytes = kDim / 64 * kPanel;
  static constexpr int kSlots = 8;
  static constexpr int kResultPanel = 16 * 128, kResultBytes = kDim / 64 * kResultPanel;  // of a warp
  static constexpr int kRing = 2 * kQueryBytes;
  static constexpr int kResults = kRing + kSlots * kSlotBytes;
  static constexpr int kControl = kResults + kTakers * kResultBytes;
  static constexpr int kItems = 4;  // the queries of two are there, the results of another in flight
};

// Barriers of the ring, and the items that the queries belong to.
template <class S>
struct GroupControl {
  CopyBarrier full[S::kSlots], empty[S::kSlots], queries_full[2], queries_empty[2];
  RowsItem items[S::kItems];  // seq -1: there are no more
  int next[2];

  __device__ void init() {
    for (int i = 0; i < S::kSlots; ++i) {
      barrier_init(&full[i], 32);
      barrier_init(&empty[i], S::kTakers);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(&queries_full[i], 128 + 1);
      barrier_init(&queries_empty[i], S::kTakers);
    }
    barrier_inits_done();
  }
};

// Where column block `piece` of row `row` lies in panels of `panel` bytes.
__device__ inline int panel_piece(int row, int piece, int panel) {
  return piece / 8 * panel + row * 128 + kv_piece(row, piece % 8) * 16;
}

// Rows after the item's first one, and heads of the KV head's, of packed rows `step` apart.
struct PackedWalk {
  int row, head, rows, heads;

  __device__ PackedWalk(const AttentionArgs& a, const RowsItem& item, int first, int step) {
    item.locate(a, first, row, head);
    row -= item.row;
    rows = static_cast<int>((static_cast<float>(step) + 0.5f) * item.inverse);
    heads = step - rows * a.group;
  }
  __device__ void next(const AttentionArgs& a) {
    row += rows;
    head += heads;
    if (head >= a.group) {
      head -= a.group;
      ++row;
    }
  }
};

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
  if (a.q.dtype == S::kType) {
#pragma unroll 4
    for (int j = 0; j < kTimes; ++j, at.next(a)) {
      const bool valid = j * kAtOnce < count;
      copy_async(to + panel_piece(first + j * kAtOnce, piece, S::kQueryPanel), valid ? from(at) : rows, valid);
    }
    return true;
  }
  if (a.q.dtype == DType::kF32) {
    narrow_queries<S, DType::kF32>(a, at, from, to, first, piece, count);
  } else {
    narrow_queries<S, S::kBf16 ? DType::kF16 : DType::kBF16>(a, at, from, to, first, piece, count);
  }
  shared_writes_done();
  return false;
}

// Keys (or values) of one step, by a warp. A row of the cache is permuted as a row of a panel is: both begin at
// multiples of eight.
template <class S>
__device__ inline void copy_rows(const AttentionArgs& a, const RowsItem& item, std::byte* to, int key,
                                 const StepPages& pages, bool values) {
  constexpr int kAtOnce = 32 / S::kPieces;  // 2 or 4 rows
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / S::kPieces, piece = lane % S::kPieces;
  std::byte* place = to + piece / 8 * S::kPanel + row * 128 + piece % 8 * 16;
  const int mine = row * (2 * S::kDim) + piece * 16;
  const auto head = [&](int page) {
    return values ? a.kv.v_rows(page, item.kv_head) : a.kv.k_rows(page, item.kv_head);
  };
  const int page = __shfl_sync(0xffffffffu, pages.page, 0), slot = __shfl_sync(0xffffffffu, pages.slot, 0);
  if (key + S::kKeys <= item.keys_end && slot + S::kKeys <= a.kv.page_rows && page >= 0) {
    const std::byte* from = head(page) + (slot * (2 * S::kDim) + mine);
#pragma unroll
    for (int j = 0; j < S::kKeys / kAtOnce; ++j)
      copy_async(place + j * kAtOnce * 128, from + j * kAtOnce * (2 * S::kDim));
    return;
  }
#pragma unroll 1
  for (int chunk = 0; chunk < S::kKeys / 16; ++chunk) {
    // A page that the window has left behind is none: the first step may reach back to it.
    const int of_chunk = __shfl_sync(0xffffffffu, pages.page, chunk);
    const int first = __shfl_sync(0xffffffffu, pages.slot, chunk) * (2 * S::kDim);
    const int valid = of_chunk < 0 ? 0 : item.keys_end - key - 16 * chunk;
    const std::byte* from = head(max(of_chunk, 0)) + first;
#pragma unroll 2
    for (int j = 0; j < 16 / kAtOnce; ++j) {
      const bool there = row + j * kAtOnce < valid;
      copy_async(place + (16 * chunk + j * kAtOnce) * 128, there ? from + (mine + j * kAtOnce * (2 * S::kDim)) : from,
                 there);
    }
  }
}

// The same of codes, which become f16 on their way: by plain loads, kFlight of them on their way where the step's
// keys lie in one page. The loads and products of two warpgroups leave this one few instructions: a lane has two sets
// of addresses for all its pieces. `ready` waits until the place is free; the loads go before it.
template <class S>
struct CodeRowsCopy {
  static constexpr int kPieces = S::kDim / 16, kAtOnce = 32 / kPieces;  // 4 or 8 rows
  static constexpr int kTurns = 8 / kAtOnce, kFlight = 4;
  using Piece = CodePiece<S::kCache>;

  const AttentionArgs& a;
  const RowsItem& item;
  const StepPages& pages;
  int key;
  bool values;
  int piece[kTurns];  // 16 dimensions that this lane has of rows j · kAtOnce + lane / kPieces, by j % kTurns
  int at[kTurns];     // where they go in rows below 8; two panels in turn, so that eight lanes meet in no bank

  __device__ CodeRowsCopy(const AttentionArgs& args, const RowsItem& of, const StepPages& its, int first,
                          bool of_values)
      : a(args), item(of), pages(its), key(first), values(of_values) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int row = turn * kAtOnce + lane / kPieces;
      piece[turn] = Piece::template logical<S::kDim>(row, lane % kPieces);
      at[turn] = panel_piece(row, 2 * piece[turn] + (is_turned(turn) ? 1 : 0), S::kPanel);
    }
  }
  __device__ bool is_turned(int turn) const { return piece[turn] / 4 % 2 != 0; }
  __device__ const std::byte* head(int page) const {
    return values ? a.kv.v_rows(page, item.kv_head) : a.kv.k_rows(page, item.kv_head);
  }
  // Rows j · kAtOnce … of those that begin at `rows`.
  __device__ void load(Piece& to, const std::byte* rows, const std::byte* scales, int j, int valid) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / kPieces;
    const std::byte* from = rows + (row * S::kDim + lane % kPieces * 16);
    const std::byte* scale = scales + (row * (S::kDim / kQ8Block) + piece[j % kTurns] / 2) * 2;
    to.take(from + j * kAtOnce * S::kDim, scale + j * kAtOnce * (S::kDim / kQ8Block) * 2, row + j * kAtOnce < valid);
  }
  __device__ void store(const Piece& from, std::byte* to, int j) const {
    const int turn = j % kTurns;
    std::byte* first = to + at[turn] + j / kTurns * 1024;
    from.store(first, to + (at[turn] ^ 16) + j / kTurns * 1024, is_turned(turn));
  }
  template <class F>
  __device__ void run(std::byte* to, const F& ready) const {
    const int page = __shfl_sync(0xffffffffu, pages.page, 0), slot = __shfl_sync(0xffffffffu, pages.slot, 0);
    if (slot + S::kKeys <= a.kv.page_rows && page >= 0) {
      const std::byte* rows = head(page) + slot * S::kDim;
      const std::byte* scales = head(page) + a.kv.page_rows * S::kDim + slot * (S::kDim / kQ8Block) * 2;
      int valid = item.keys_end - key;
      Piece pieces[kFlight];
#pragma unroll
      for (int j = 0; j < kFlight; ++j) load(pieces[j], rows, scales, j, valid);
      ready();
      constexpr int kRows = kFlight * kAtOnce;  // of the loads in flight
#pragma unroll 1
      for (int row = 0; row < S::kKeys; row += kRows, to += kRows * 128) {
        rows += kRows * S::kDim;
        scales += kRows * (S::kDim / kQ8Block) * 2;
        valid -= kRows;
        const bool more = row + kRows < S::kKeys;
#pragma unroll
        for (int j = 0; j < kFlight; ++j) {
          store(pieces[j], to, j);
          if (more) load(pieces[j], rows, scales, j, valid);
        }
      }
    } else {
      ready();
      by_chunks(to);
    }
    shared_writes_done();
  }
  __device__ void by_chunks(std::byte* to) const {
    constexpr int kEach = 16 / kAtOnce;  // loads for 16 keys, which lie in one page
#pragma unroll 1
    for (int chunk = 0; chunk < S::kKeys / 16; ++chunk) {
      const int page = __shfl_sync(0xffffffffu, pages.page, chunk), slot = __shfl_sync(0xffffffffu, pages.slot, chunk);
      // A page that the window has left behind is none: the first step may reach back to it.
      const int valid = page < 0 ? 0 : item.keys_end - key - 16 * chunk;
      const std::byte* rows = head(max(page, 0));
      const std::byte* scales = rows + a.kv.page_rows * S::kDim + slot * (S::kDim / kQ8Block) * 2;
      Piece pieces[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) load(pieces[j], rows + slot * S::kDim, scales, j, valid);
#pragma unroll
      for (int j = 0; j < kEach; ++j) store(pieces[j], to + chunk * 16 * 128, j);
    }
  }
};

// The first warpgroup: items one after another, the block's own first and then whichever nobody has taken, those with
// the most keys first. Their queries by all four warps, then keys and values in turn, each matrix by one: what a warp
// does before it can start its copies takes it longer than the products of a step do. The copies themselves arrive at
// the barriers. The fence that the products need after ordinary writes is made by who waits there: here it would wait
// for all copies that are in flight.
template <class S>
__device__ inline void copy_items(const AttentionArgs& a, std::byte* shared, GroupControl<S>& control) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  TileFinder tiles(a);
  RowsItem item;
  StepPages pages;
  int filled = 0;  // matrices
  int key = 0;     // of this warp's next matrix
  // Of the four matrices of two steps, the warp has the one with its own number.
  const auto find = [&](int index) {
    const int tile = index / a.kv_heads;
    item.kv_head = index - tile * a.kv_heads;
    const bool found = tiles.find(a, tile, S::kKeys, item);
    if (!found) return false;
    key = item.keys_begin + ((warp / 2 ^ filled / 2) & 1) * S::kKeys;
    pages = StepPages::of<S>(a, item, key);
    return true;
  };
  bool found = find(static_cast<int>(blockIdx.x));
  wait_for_inputs();
  for (int turn = 0;; ++turn) {
    const int slot = turn % 2;
    barrier_wait(&control.queries_empty[slot], (turn / 2 & 1) ^ 1);
    uint32_t claimed = 0;
    if (thread == 0) {
      if (!found) item.seq = -1;
      control.items[turn % S::kItems] = item;
      barrier_arrive(&control.queries_full[slot]);
      if (found) claimed = atomicAdd(&a.tickets[0], 1u);
    }
    if (found && copy_queries<S>(a, item, shared + slot * S::kQueryBytes)) {
      barrier_arrive_after_copies(&control.queries_full[slot]);
    } else {
      barrier_arrive(&control.queries_full[slot]);
    }
    if (!found) break;
#pragma unroll 1
    for (; key < item.keys_end; key += 2 * S::kKeys) {
      const StepPages now = pages;
      pages = StepPages::of<S>(a, item, key + 2 * S::kKeys);
      const int matrix = filled + (key - item.keys_begin) / S::kKeys * 2 + warp % 2, to = matrix % S::kSlots;
      const auto ready = [&] { barrier_wait(&control.empty[to], (matrix / S::kSlots & 1) ^ 1); };
      std::byte* place = shared + S::kRing + to * S::kSlotBytes;
      if constexpr (S::kCoded) {
        CodeRowsCopy<S>(a, item, now, key, warp % 2 != 0).run(place, ready);
        barrier_arrive(&control.full[to]);
      } else {
        ready();
        copy_rows<S>(a, item, place, key, now, warp % 2 != 0);
        barrier_arrive_after_copies(&control.full[to]);
      }
    }
    filled += (item.keys_end - item.keys_begin + S::kKeys - 1) / S::kKeys * 2;
    if (thread == 0) control.next[slot] = static_cast<int>(gridDim.x + claimed);
    barrier_some(1, 128);
    found = find(control.next[slot]);
  }
  // The last block to have found no more leaves zeros behind.
  if (thread == 0 && atomicInc(&a.tickets[1], gridDim.x - 1) == gridDim.x - 1) a.tickets[0] = 0;
}

}  // namespace ingot::cuda
