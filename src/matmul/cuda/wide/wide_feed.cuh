// The feeders of the kernel of nine to 32 rows (wide_kernel.cuh): a block's way through its work, the ring of weights
// and x, and the four warps that fill it.
#pragma once

#include <type_traits>

#include "cuda/wgmma.cuh"  // barrier_arrive_after_copies, barrier_some
#include "matmul/cuda/wide/wide_groups.cuh"

namespace ingot::cuda {
namespace {

constexpr int kFeeders = 4;  // warps

// A step: chunks of W, and bytes of a row of x.
template <class W>
constexpr WideStep kStep = wide_step<W>();
template <class W>
constexpr int kStepChunks = kStep<W>.units / W::kUnits;
template <class W>
constexpr int kXRow = kStep<W>.x_row();

constexpr int kWideThreads = 32 * (kWideConsumers + kFeeders);
// Those that meet where a stage is handed back: of codes one feeder alone.
template <class W>
constexpr int kMeeting = kByWarps<W> ? 32 * (kWideConsumers + 1) : kWideThreads;

// A block's way through its work: the steps of one slice, or of slab after slab.
struct Walk {
  int64_t slab;
  int slice, begin, end;  // steps of the slice
  int slabs;              // that this block has
  __device__ explicit Walk(const WidePlan& plan) {
    const int blocks = static_cast<int>(gridDim.x);
    slice = static_cast<int>(blockIdx.y);
    slab = blockIdx.x;
    slabs = plan.slabs == blocks ? 1 : (plan.slabs - static_cast<int>(slab) + blocks - 1) / blocks;
    begin = plan.steps * slice / plan.slices;
    end = plan.steps * (slice + 1) / plan.slices;
  }
  __device__ int total() const { return slabs * (end - begin); }
};

// Stages of 32 rows of x, and behind them all of [the slab's tiles][a step's chunks]. Copies fill a stage and complete
// its barrier; consumers hand it back at the block's barrier 1 + stage, all lanes of them: one instruction for a warp,
// where an arrival of one lane for all is a race in the eyes of compute-sanitizer.
struct WideRing {
  std::byte* memory;
  CopyBarrier* full;           // and behind them what copied() gives
  int stages, x_bytes, bytes;  // of a stage: of x, of weights
  int meeting;                 // threads
  int stage = 0;
  uint32_t parity = 0;
  // By consumers, and by feeders; whole warps.
  __device__ void hand_back(int which) const {
    __syncwarp();
    barrier_some_arrive(1 + which, meeting);
  }
  __device__ void wait_until_handed_back() const {
    __syncwarp();
    barrier_some(1 + stage, meeting);
  }
  // Of codes: x as it is.
  __device__ CopyBarrier* copied() const { return full + stages; }
  __device__ std::byte* x() const { return memory + stage * x_bytes; }
  __device__ std::byte* at() const { return memory + stages * x_bytes + stage * bytes; }
  __device__ void advance() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

// What kWarps feeders ask for next, one packed tile for each lane of a few.
template <class W, int kWarps = kFeeders>
struct WeightFeed {
  int64_t slab;
  int step;
  __device__ void fetch(const WideArgs& args, const Walk& walk, const WideRing& ring, int warp, int lane) {
    const WidePlan& plan = args.plan;
    const int chunk_bytes = plan.tile_rows / 16 * W::kBytes, chunk = step * kStepChunks<W>;
    const uint32_t bytes = static_cast<uint32_t>(min(kStepChunks<W>, args.stream.chunks - chunk) * chunk_bytes);
    const int tiles = static_cast<int>(min(int64_t{plan.tiles}, args.stream.tiles - slab * plan.tiles));
    const int mine = tiles > warp ? (tiles - warp + kWarps - 1) / kWarps : 0;  // warp, warp + kWarps, …
    if (lane == 0) barrier_expect(ring.full + ring.stage, bytes * static_cast<uint32_t>(mine));
    __syncwarp();
    if (lane < mine) {
      const int of_slab = warp + lane * kWarps;
      const int64_t tile = slab * plan.tiles + of_slab;
      copy_bulk(ring.at() + of_slab * kStepChunks<W> * chunk_bytes,
                args.stream.weights + (tile * args.stream.chunks + chunk) * chunk_bytes, bytes, ring.full + ring.stage);
    }
    if (++step == walk.end) step = walk.begin, slab += gridDim.x;
  }
};

// scale[row] of the rows that the product before left behind, kFeeders apart for each feeder: a row's squares are
// asked for in one step of the ring and added up in the next, so that no step waits for them.
struct ScaleFeed {
  static constexpr int kHeld = 8;
  float held[kHeld];
  int row;  // the next to ask for
  bool pending = false;

  __device__ void ask(const StreamArgs& args, int lane) {
    pending = row < args.rows;
    if (!pending) return;
    const float* squares = args.from.squares + int64_t{row} * args.from.parts;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held[i] = lane + 32 * i < args.from.parts ? squares[lane + 32 * i] : 0.0f;
  }
  __device__ void add(const StreamArgs& args, float* scale, int lane) {
    if (!pending) return;
    const NormLink& from = args.from;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) sum += held[i];
    for (int i = lane + 32 * kHeld; i < from.parts; i += 32) sum += from.squares[int64_t{row} * from.parts + i];
    sum = warp_sum(sum);
    if (lane == 0) scale[row] = inverse_root(sum, from.x.cols, from.eps);
    row += kFeeders;
    pending = false;
  }
};

// Pieces of eight columns of x, those of odd rows with their halves exchanged, so that eight lanes that read four
// pieces of two rows have all banks.
template <class W>
__device__ int x_place(int row, int piece) {
  return row * kXRow<W> + (piece ^ row % 2 * 4) * 16;
}

// x for the instructions of warps.
template <class W>
struct PiecesFeed {
  static constexpr int kPieces = kXRow<W> / 16;
  static constexpr int kRows = kFeeders * 32 / kPieces;  // that feeders bring at a time
  int piece, row;
  const std::byte* from;
  int64_t rows_bytes;

  __device__ PiecesFeed(const StreamArgs& in, int warp, int lane) {
    const int thread = warp * 32 + lane;
    piece = thread % kPieces, row = thread / kPieces;
    from = in.x.row(row) + piece * 16;
    rows_bytes = in.x.stride * 2 * kRows;
  }
  __device__ void copy(const StreamArgs& in, std::byte* x, int step) const {
    const bool exists = step * kStep<W>.units + piece / 4 < in.units;
#pragma unroll
    for (int u = 0; u < kWideRows / kRows; ++u) {
      if (row + u * kRows >= in.rows) break;
      std::byte* to = x + x_place<W>(row + u * kRows, piece);
      if (exists) copy_async(to, from + u * rows_bytes + step * kXRow<W>);
    }
  }
};

// x for those of warpgroups (wgmma.cuh, by rows): [64 columns][row][128 bytes]; in each 32 columns they are where the
// instruction's lanes have those of the weights. A warp copies the 128 bytes of a row at a time, four a lane: read and
// written without conflicts, in whatever order.
template <class W>
struct TurnedFeed {
  static constexpr int kHalves = kStep<W>.units / 2;
  static constexpr int kHalf = kWideRows * 128;
  int first, unit;  // row; of 64 columns
  const std::byte* from;
  int64_t rows_bytes;  // of kFeeders rows
  int to[2];           // of rows `first` and first + kFeeders; those eight further lie 1024 bytes further

  __device__ TurnedFeed(const StreamArgs& in, int warp, int lane) : first(warp), unit(lane / 16) {
    static_assert(2 * kFeeders == 8);
    const PairPlace place = pair_place(W::kBySixteens, lane % 16);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = warp + i * kFeeders;
      to[i] = row * 128 + kv_piece(row, unit * 4 + place.piece) * 16 + place.t * 4;
    }
    from = in.x.row(warp) + lane * 4;
    rows_bytes = in.x.stride * 2 * kFeeders;
  }
  __device__ void copy(const StreamArgs& in, std::byte* x, int step) const {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      const bool exists = (step * kHalves + h) * 2 + unit < in.units;
#pragma unroll
      for (int i = 0; i < kWideRows / kFeeders; ++i) {
        if (first + i * kFeeders >= in.rows) break;
        const std::byte* at = from + i * rows_bytes + (step * kHalves + h) * 128;
        copy_async_word(x + h * kHalf + to[i % 2] + i / 2 * 1024, exists ? at : in.x.data, exists);
      }
    }
  }
};

// Of codes: weights and rows of x, as deep as the ring is.
template <class W>
__device__ void bring(const WideArgs& args, const Walk& walk, WideRing ring, int lane) {
  const StreamArgs& in = args.stream;
  const int total = walk.total(), deep = min(ring.stages, total);
  WeightFeed<W, 1> weights{walk.slab, walk.begin};
  if (lane == 0) expect_copies_by(args.x);
  for (WideRing first = ring; first.parity == 0 && first.stage < deep; first.advance())
    weights.fetch(args, walk, first, 0, lane);
  await_inputs(in);
  const auto bytes = static_cast<uint32_t>((in.rows + 7) / 8 * 2048);
  int step = walk.begin;
  for (int i = 0; i < total; ++i) {
    if (i >= ring.stages) {
      ring.wait_until_handed_back();
      shared_writes_done();  // turned x makes room for copies
      weights.fetch(args, walk, ring, 0, lane);
    }
    if (lane == 0) {
      CopyBarrier* copied = ring.copied() + ring.stage;
      barrier_expect(copied, bytes);
      copy_tensor(ring.x(), args.x, step * 128, 0, copied);
      copy_tensor(ring.x() + kWideXHalf, args.x, step * 128 + 64, 0, copied);
    }
    ring.advance();
    if (++step == walk.end) step = walk.begin;
  }
}

// The octets of all steps in turn, every kTurners-th for each of these warps.
template <class W>
__device__ void turn(const WideArgs& args, const Walk& walk, WideRing ring, int turner, int lane) {
  const StreamArgs& in = args.stream;
  const int octets = (in.rows + 7) / 8;
  int left = walk.total(), octet = turner;
  while (true) {
    while (octet >= octets) {
      octet -= octets;
      if (--left == 0) return;
      // Of a stage without an octet of this warp's too: a wait in the ring's next turn would take its phase for that
      // one.
      barrier_wait(ring.copied() + ring.stage, ring.parity);
      ring.advance();
    }
    barrier_wait(ring.copied() + ring.stage, ring.parity);
    OctetTurn<W> x;
    x.turn(ring.x(), octet, lane);
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.full + ring.stage);
    octet += kTurners;
  }
}

template <class W>
__device__ void feed(const WideArgs& args, const Walk& walk, WideRing ring, float* scale, CopyBarrier* scales_there,
                     int warp, int lane) requires(kByWarps<W>) {
  if (warp == kTurners) return bring<W>(args, walk, ring, lane);
  turn<W>(args, walk, ring, warp, lane);
}

template <class W>
__device__ void feed(const WideArgs& args, const Walk& walk, WideRing ring, float* scale, CopyBarrier* scales_there,
                     int warp, int lane) requires(!kByWarps<W>) {
  const StreamArgs& in = args.stream;
  const int total = walk.total(), deep = min(ring.stages, total), steps = walk.end - walk.begin;
  WeightFeed<W> weights{walk.slab, walk.begin};
  ScaleFeed scales;
  scales.row = warp;
  for (WideRing first = ring; first.parity == 0 && first.stage < deep; first.advance())
    weights.fetch(args, walk, first, warp, lane);
  const std::conditional_t<W::kByGroups, TurnedFeed<W>, PiecesFeed<W>> x(in, warp, lane);
  await_inputs(in);

  int step = walk.begin;
  for (int i = 0; i < total; ++i) {
    if (i >= ring.stages) {
      ring.wait_until_handed_back();
      weights.fetch(args, walk, ring, warp, lane);
    }
    x.copy(in, ring.x(), step);
    barrier_arrive_after_copies(ring.full + ring.stage);
    ring.advance();
    if (++step == walk.end) step = walk.begin;
    if (i >= steps) continue;
    if (in.from.weight != nullptr && i + 1 >= deep) {  // first x, as deep as the ring is
      scales.add(in, scale, lane);
      scales.ask(in, lane);
    }
    // Consumers want them at the end of the first slab.
    if (i != steps - 1) continue;
    if (in.from.weight != nullptr && !scales.pending) scales.ask(in, lane);
    while (scales.pending) {
      scales.add(in, scale, lane);
      scales.ask(in, lane);
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(scales_there);
  }
}

}  // namespace
}  // namespace ingot::cuda
