// Attention of many rows by warpgroups (attention_cuda_group.cuh): what lies in shared memory, and how keys and values
// come there.
#pragma once

#include "cuda/tensor_copy.cuh"
#include "cuda/wgmma.cuh"
#include "ops/attention/cuda/attention_cuda_codes.cuh"
#include "ops/attention/cuda/attention_cuda_rows_warp.cuh"

namespace ingot::cuda {

// kBoxed: keys and values come by tensor copies, for queries of the products' type and pages that such copies fit
// (GroupMaps). Items with many keys have steps of 128 then.
template <DType kCache_, int kDim_, bool kBoxed_ = false>
struct GroupShape {
  static constexpr bool kBoxed = kBoxed_;
  static constexpr DType kCache = kCache_;
  static constexpr bool kBf16 = kCache == DType::kBF16, kCoded = kv_is_coded(kCache);
  static constexpr int kDim = kDim_;
  static constexpr DType kType = kBf16 ? DType::kBF16 : DType::kF16;  // of what is multiplied
  static constexpr int kPieces = kDim / 8;                            // of a row
  static constexpr int kKeys = 64, kLongKeys = 128;                   // of a step
  // Keys from which on an item's steps are long: 4096 rows of a prompt took 298 us with short ones and 268 with long
  // ones, 1024 rows 29.2 and 31.5.
  static constexpr int kLongItem = 1024;

  static constexpr int kThreads = 3 * 128;  // one warpgroup copies, two have 64 packed rows each
  static constexpr int kTakers = 8;         // warps of the two
  // Of a thread that copies, and of one that multiplies; together what 168 of each would be. With more a block would
  // wait for them for ever.
  static constexpr int kFewRegisters = kBoxed ? 88 : kBf16 ? 72 : 120;
  static constexpr int kManyRegisters = kBoxed ? 208 : kBf16 ? 216 : 192;

  static_assert(kFewRegisters + 2 * kManyRegisters == 3 * 168);

  // Matrices lie in panels of 64 columns (MatrixPlace). Queries of two items; keys and values of steps in turn, those
  // of a long step in two slots that follow one another.
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
  TileFinder finders[32];     // of the lanes of the warp that finds them

  __device__ void init() {
    for (int i = 0; i < S::kSlots; ++i) {
      barrier_init(&full[i], S::kBoxed ? 1 : 32);
      barrier_init(&empty[i], S::kTakers);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(&queries_full[i], 128 + 1);
      barrier_init(&queries_empty[i], S::kTakers);
    }
    barrier_inits_done();
  }
};

// The steps of an item: the first that is taken has its last keys.
template <class S>
struct GroupSteps {
  int begin;  // the first key
  int keys;   // of a step
  int count;

  __device__ explicit GroupSteps(const RowsItem& item)
      : begin(item.keys_begin),
        keys(S::kBoxed && item.keys_end - begin >= S::kLongItem ? S::kLongKeys : S::kKeys),
        count((item.keys_end - begin + keys - 1) / keys) {}
  __device__ int key(int step) const { return begin + (count - 1 - step) * keys; }
  __device__ int slots() const { return keys == S::kKeys ? 1 : 2; }  // of a matrix
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

// The cache's keys and values as matrices for tensor copies of 64 rows by 64 columns, its pages and heads one below the
// other; rows lie permuted in it as they shall in shared memory.
struct GroupMaps {
  static constexpr int kRows = 64;  // of a copy
  TensorMap k, v;

  GroupMaps() = default;
  explicit GroupMaps(const KvPlace& kv) : k(map(kv.k, kv.k_row_bytes)), v(map(kv.v, kv.v_row_bytes)) {}
  static bool fit(const KvPlace& kv) {
    return kv.page_rows % kRows == 0 && kv.k_page % kv.k_row_bytes == 0 && kv.v_page % kv.v_row_bytes == 0;
  }

 private:
  // How many pages there are is not known here: as many as can be.
  static TensorMap map(const std::byte* data, int row_bytes) {
    return make_tensor_map(data, (int64_t{1} << 31) - 1, row_bytes / 2, row_bytes, kRows, false);
  }
};

// Keys (or values) of one step, by a warp. A row of the cache is permuted as a row of a panel is: both begin at
// multiples of eight.
template <class S, int kKeys = S::kKeys>
__device__ inline void copy_rows(const AttentionArgs& a, const RowsItem& item, std::byte* to, int key,
                                 const StepPages& pages, bool values) {
  constexpr int kAtOnce = 32 / S::kPieces;  // 2 or 4 rows
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / S::kPieces, piece = lane % S::kPieces;
  std::byte* place = to + piece / 8 * (kKeys * 128) + row * 128 + piece % 8 * 16;
  const int mine = row * (2 * S::kDim) + piece * 16;
  const auto head = [&](int page) {
    return values ? a.kv.v_rows(page, item.kv_head) : a.kv.k_rows(page, item.kv_head);
  };
  const int page = __shfl_sync(0xffffffffu, pages.page, 0), slot = __shfl_sync(0xffffffffu, pages.slot, 0);
  if (!S::kBoxed && key + kKeys <= item.keys_end && slot + kKeys <= a.kv.page_rows && page >= 0) {
    const std::byte* from = head(page) + (slot * (2 * S::kDim) + mine);
#pragma unroll
    for (int j = 0; j < kKeys / kAtOnce; ++j) copy_async(place + j * kAtOnce * 128, from + j * kAtOnce * (2 * S::kDim));
    return;
  }
#pragma unroll 1
  for (int chunk = 0; chunk < kKeys / 16; ++chunk) {
    // A page that the window has left behind is none: the first step may reach back to it.
    const int of_chunk = __shfl_sync(0xffffffffu, pages.page, chunk);
    const int first = __shfl_sync(0xffffffffu, pages.slot, chunk) * (2 * S::kDim);
    const int valid = of_chunk < 0 ? 0 : item.keys_end - key - 16 * chunk;
    const std::byte* from = head(max(of_chunk, 0)) + first;
#pragma unroll(S::kBoxed ? 1 : 2)
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

// Keys (or values) of a step of kKeys to slots from number `first` on, by a warp: by one lane where there are as many
// keys, which may be more than there are; else what there is, and zeros.
template <class S, int kKeys>
__device__ inline void copy_boxes(const AttentionArgs& a, const RowsItem& item, std::byte* to, CopyBarrier* full,
                                  int key, const StepPages& pages, bool values, const GroupMaps& maps) {
  constexpr int kRows = GroupMaps::kRows, kTimes = kKeys / kRows, kPanels = S::kDim / 64;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  bool whole = key + kKeys <= item.keys_end;
#pragma unroll
  for (int i = 0; i < kTimes; ++i) whole = whole && __shfl_sync(0xffffffffu, pages.page, kRows / 16 * i) >= 0;
  if (!whole) {
    copy_rows<S, kKeys>(a, item, to, key, pages, values);
    commit_copies();
    copies_done<0>();
    shared_writes_done();
    __syncwarp();
    if (lane < kTimes) barrier_arrive(full + lane);
    return;
  }
  if (lane < kTimes) barrier_expect(full + lane, S::kSlotBytes);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kTimes; ++i) {
    const int page = __shfl_sync(0xffffffffu, pages.page, kRows / 16 * i);
    const int slot = __shfl_sync(0xffffffffu, pages.slot, kRows / 16 * i);
    if (lane != 0) continue;
    const int64_t page_rows = (values ? a.kv.v_page : a.kv.k_page) / (2 * S::kDim);
    const int64_t row = page * page_rows + item.kv_head * a.kv.page_rows + slot;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel)
      copy_tensor(to + panel * kKeys * 128 + i * kRows * 128, values ? maps.v : maps.k, 64 * panel, row, full + i);
  }
  __syncwarp();
}

}  // namespace ingot::cuda
