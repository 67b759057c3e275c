#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "comm/from_all.h"
#include "cuda/peers.cuh"
#include "ops/all_gather/all_gather.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {

// What each rank gives, where it lies on its device.
struct GatherPeers {
  struct Place {
    const std::byte* data = nullptr;
    int64_t pitch = 0;  // elements from a row of a block to the next
    int64_t unit = 0;   // bytes that a thread may read or write at a time
  };
  std::vector<Place> given;  // [ranks]
  int64_t unit = 0;          // the least of all
};

namespace {

constexpr int kThreads = 256;
constexpr int kUnitsOfThread = 4;
// 16 rows of 4,096 values in f32 are written to the others' memory; of more each reads what it lacks, with a second
// meeting, but no byte is moved twice.
constexpr int64_t kMostStaged = 256 << 10;

// In units of T.
struct Gather {
  Peers peers;
  struct From {
    const std::byte* data;
    uint32_t pitch, begin, count;
  } from[kMostPeers];
  std::byte* out;
  uint32_t pitch, rows;
  bool first_only;

  __device__ bool wanted() const { return !first_only || peers.rank == 0; }
};

// f(row, column, i) for this block's part of the rows of `count` units, the i-th of them.
template <class F>
__device__ void each_unit(const Gather& g, uint32_t count, F&& f) {
  const uint64_t n = uint64_t{g.rows} * count;
  const auto begin = static_cast<uint32_t>(n * blockIdx.x / gridDim.x);
  const auto end = static_cast<uint32_t>(n * (blockIdx.x + 1) / gridDim.x);
  for (uint32_t i = begin + threadIdx.x; i < end; i += kThreads) f(i / count, i % count, i);
}

template <class T>
__device__ T given_by(const Gather::From& from, uint32_t row, uint32_t col) {
  return __ldcg(reinterpret_cast<const T*>(from.data) + uint64_t{row} * from.pitch + col);
}

// What rank r gives, where `read(row, column, i)` finds it, into the result.
template <class T, class Read>
__device__ void take(const Gather& g, int r, Read&& read) {
  const uint32_t begin = g.from[r].begin;
  each_unit(g, g.from[r].count, [&](uint32_t row, uint32_t col, uint32_t i) {
    reinterpret_cast<T*>(g.out)[uint64_t{row} * g.pitch + begin + col] = read(row, col, i);
  });
}

// Each writes its columns to the others' memory, they meet once, and each reads in its own. That half of the stage was
// read before the last kernel that meets others began.
template <class T>
__global__ __launch_bounds__(kThreads) void gather_staged_kernel(const __grid_constant__ Gather g) {
  let_next_begin();
  wait_for_inputs();
  const Peers& peers = g.peers;
  const int own = peers.rank;
  const uint32_t meeting = next_meeting(peers);
  const auto stage = [&](int owner, int giver) {
    return reinterpret_cast<T*>(peers.stage[owner] + (meeting & 1) * peers.stage_bytes) +
           uint64_t{g.rows} * g.from[giver].begin;
  };
  const auto given = [&](uint32_t row, uint32_t col, uint32_t) { return given_by<T>(g.from[own], row, col); };
  for (int step = 1; step < peers.ranks; ++step) {
    const int r = (own + step) % peers.ranks;
    if (g.first_only && r != 0) continue;
    T* const to = stage(r, own);
    each_unit(g, g.from[own].count, [&](uint32_t row, uint32_t col, uint32_t i) { to[i] = given(row, col, i); });
  }
  if (g.wanted()) take<T>(g, own, given);
  meet_peers(peers, meeting);
  for (int r = 0; r < peers.ranks && g.wanted(); ++r) {
    if (r == own) continue;
    const T* const from = stage(own, r);
    take<T>(g, r, [&](uint32_t, uint32_t, uint32_t i) { return __ldcg(from + i); });
  }
  end_meetings(peers, meeting);
}

// Each reads the others' columns where they lie, between two meetings.
template <class T>
__global__ __launch_bounds__(kThreads) void gather_in_place_kernel(const __grid_constant__ Gather g) {
  let_next_begin();
  wait_for_inputs();
  const Peers& peers = g.peers;
  const uint32_t meeting = next_meeting(peers);
  const bool all_came = meet_peers(peers, meeting);  // else their memory may be gone
  for (int step = 0; step < peers.ranks && all_came && g.wanted(); ++step) {
    const int r = (peers.rank + step) % peers.ranks;
    take<T>(g, r, [&](uint32_t row, uint32_t col, uint32_t) { return given_by<T>(g.from[r], row, col); });
  }
  meet_peers(peers, meeting + 1);
  end_meetings(peers, meeting + 1);
}

// `rows` rows from `first` on.
template <class T>
void launch_rows(const Gather& all, int64_t first, int64_t rows, int64_t width, bool staged, Ctx& ctx) {
  Gather g = all;
  g.rows = static_cast<uint32_t>(rows);
  constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
  for (Gather::From& from : g.from) from.data += first * from.pitch * kUnit;
  g.out += first * g.pitch * kUnit;
  const int64_t blocks = std::clamp<int64_t>(ceil_div(rows * width, kThreads * kUnitsOfThread), 1, kPeerBlocks);
  const Launch shape{.grid = dim3(blocks), .threads = dim3(kThreads)};
  launch_peers(ctx, staged ? gather_staged_kernel<T> : gather_in_place_kernel<T>, shape, g);
}

template <class T>
void launch_gather(const AllGather& op, Ctx& ctx) {
  const Peers& peers = *ctx.peers;
  const auto unit = static_cast<int64_t>(sizeof(T)) / dtype_bytes(op.x.dtype);  // elements
  const int64_t rows = ctx.rows(op.out) * op.blocks, width = op.out.cols / op.blocks / unit;
  CHECK(rows * width < int64_t{1} << 31, "{} rows of {} units of {} bytes", rows, width, sizeof(T));
  Gather g = {};
  g.peers = peers;
  for (size_t r = 0; r < op.begins.size(); ++r) {
    const GatherPeers::Place& given = op.peers->given[r];
    g.from[r] = {.data = given.data,
                 .pitch = static_cast<uint32_t>(given.pitch / unit),
                 .begin = static_cast<uint32_t>(op.begins[r] / unit),
                 .count = static_cast<uint32_t>(op.counts[r] / unit)};
  }
  g.out = op.out.data;
  g.pitch = static_cast<uint32_t>((op.blocks == 1 ? op.out.stride : op.out.cols / op.blocks) / unit);
  g.first_only = op.first_only;
  const int64_t row_bytes = width * static_cast<int64_t>(sizeof(T));
  if (peers.direct && rows * row_bytes > kMostStaged) return launch_rows<T>(g, 0, rows, width, false, ctx);
  const int64_t most = peers.stage_bytes / row_bytes;
  for (int64_t first = 0; first < rows; first += most)
    launch_rows<T>(g, first, std::min(most, rows - first), width, true, ctx);
}

// The most bytes that all of a rank's pieces are multiples of.
int64_t unit_of(const AllGather& op) {
  const int64_t element = dtype_bytes(op.x.dtype);
  int64_t all = 16 | op.out.stride * element | op.x.stride * element;
  all |= static_cast<int64_t>(reinterpret_cast<uintptr_t>(op.x.data) | reinterpret_cast<uintptr_t>(op.out.data));
  if (op.blocks > 1) all |= op.out.cols / op.blocks * element | op.x.cols / op.blocks * element;
  for (size_t r = 0; r < op.begins.size(); ++r) all |= op.begins[r] * element | op.counts[r] * element;
  return all & -all;
}

}  // namespace

void prepare(AllGather& op, Prepare& p) {
  CHECK(p.comm != nullptr && p.peers != nullptr && op.begins.size() <= kMostPeers, "{} ranks", op.begins.size());
  CHECK(op.x.dtype == op.out.dtype, "{} and {}", dtype_name(op.x.dtype), dtype_name(op.out.dtype));
  CHECK(op.blocks == 1 || (op.out.stride == op.out.cols && op.x.stride == op.x.cols), "blocks with gaps");
  if (const int64_t row = op.out.cols / op.blocks * dtype_bytes(op.out.dtype);
      !p.peers->direct && row > p.peers->stage_bytes)
    throw Error("[tp] GPUs that do not reach each other's memory gather rows of at most {} bytes, not {}",
                p.peers->stage_bytes, row);
  const GatherPeers::Place own{
      .data = op.x.data, .pitch = op.blocks == 1 ? op.x.stride : op.x.cols / op.blocks, .unit = unit_of(op)};
  const auto places = std::make_shared<GatherPeers>();
  places->given = from_all(*p.comm, own);
  places->unit = std::ranges::min(places->given, {}, &GatherPeers::Place::unit).unit;
  op.peers = places;
}

void run(const AllGather& op, Ctx& ctx) {
  CHECK(op.peers != nullptr && ctx.peers != nullptr, "ranks that have not met");
  if (op.peers->unit == 16) return launch_gather<uint4>(op, ctx);
  if (op.peers->unit >= 4) return launch_gather<uint32_t>(op, ctx);
  launch_gather<uint16_t>(op, ctx);
}

}  // namespace ingot::cuda
