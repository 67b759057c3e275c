// The streaming kernel of experts: tiles of one to eight places of an expert, whose weights stream past as those of a
// linear of so few rows (stream_kernel.cuh has the why of ring, sums and shared memory).
//
// A block per multiprocessor takes items in turn: a tile of places times one, two or four packed tiles of the expert's
// weights, each for a group of the block's eight warps, which share its chunks. So the order over K depends on K alone.
#pragma once

#include "matmul/cuda/experts/experts_stream.cuh"
#include "matmul/cuda/stream/stream_kernel.cuh"

namespace ingot::cuda {
namespace {

// A warp's chunks on their way: those of its group's packed tiles that are its own, of the block's items.
template <class W>
struct ExpertRing {
  using Shape = StreamShape<W, kExpertTileRows>;
  std::byte* memory;
  CopyBarrier* barriers;
  const ExpertStreamArgs& args;
  int items;                // of all
  int group, first, warps;  // this warp's, which it is of the group, and how many there are
  int mine;                 // chunks of an item that are this warp's
  int item = static_cast<int>(blockIdx.x);
  const std::byte* from = nullptr;
  int left = 0;   // chunks of the item that were not asked for
  int stage = 0;  // of the chunk that comes next
  uint32_t parity = 0;

  __device__ void begin() {
    if (threadIdx.x % 32 == 0) {
      for (int i = 0; i < Shape::kStages; ++i) barrier_init(barriers + i, 1);
      barrier_inits_done();
    }
    __syncwarp();
    begin_item();
#pragma unroll
    for (int i = 0; i < Shape::kStages; ++i) fetch(i);
  }
  // The chunk that comes next, when it is there.
  __device__ const std::byte* take() {
    barrier_wait(barriers + stage, parity);
    return memory + stage * Shape::kChunk;
  }
  // All lanes have read it.
  __device__ void give_back() {
    fetch(stage);
    if (++stage == Shape::kStages) stage = 0, parity ^= 1;
  }

 private:
  __device__ void begin_item() {
    for (; item < items; item += static_cast<int>(gridDim.x)) {
      const int tile = item / args.steps, slice = (item - tile * args.steps) * args.groups + group;
      if (slice >= args.slices) continue;
      from = args.weights + args.list.tiles[tile].expert * args.stride +
             (int64_t{slice} * args.chunks + first) * Shape::kChunk;
      left = mine;
      return;
    }
  }
  __device__ void fetch(int to) {
    if (left == 0) return;
    if (threadIdx.x % 32 == 0) {
      barrier_expect(barriers + to, Shape::kChunk);
      copy_bulk(memory + to * Shape::kChunk, from, Shape::kChunk, barriers + to);
    }
    from += warps * Shape::kChunk;
    if (--left > 0) return;
    item += static_cast<int>(gridDim.x);
    begin_item();
  }
};

// What a lane multiplies: its eight columns of each unit of x, of the place lane / 4 of the item's tile; of the last
// where there is no such place, whose products nobody reads.
template <bool kBySixteens>
struct PlaceX {
  const std::byte* at = nullptr;

  __device__ void find(const ExpertStreamArgs& args, int item, int lane) {
    const ExpertTile tile = args.list.tiles[item / args.steps];
    const int place = args.list.place[tile.first + min(lane / 4, tile.count - 1)];
    at = args.x.row(place / args.per_row) + lane % 4 * (kBySixteens ? 8 : 16);
  }
  __device__ uint4 load(int unit) const {
    const std::byte* from = at + int64_t{unit} * (kStreamCols * 2);
    if constexpr (!kBySixteens) return *reinterpret_cast<const uint4*>(from);
    const uint2 a = *reinterpret_cast<const uint2*>(from), b = *reinterpret_cast<const uint2*>(from + 32);
    return make_uint4(a.x, a.y, b.x, b.y);
  }
};

// x of the chunks that come next, some ahead (stream_kernel.cuh), of this item and of the block's next.
template <class W>
struct ItemX {
  const ExpertStreamArgs& args;
  int first, warps, mine;  // as ExpertRing's
  PlaceX<W::kBySixteens> now, next;
  uint4 of[kAhead<W>][W::kUnits];

  // The warp's chunk i into place u.
  __device__ __forceinline__ void load(int u, int i, bool after) {
    const PlaceX<W::kBySixteens> from{after ? next.at : now.at};
    const int unit = (first + i * warps) * W::kUnits;
    if (W::kUnits == 1 || unit + W::kUnits <= args.units) {
#pragma unroll
      for (int k = 0; k < W::kUnits; ++k) of[u][k] = from.load(unit + k);
    } else {
      // The last chunk reaches beyond x.
#pragma unroll
      for (int k = 0; k < W::kUnits; ++k)
        of[u][k] = unit + k < args.units ? from.load(unit + k) : make_uint4(0, 0, 0, 0);
    }
  }
  // The first chunks of an item.
  __device__ __forceinline__ void load_first(bool after) {
#pragma unroll
    for (int u = 0; u < kAhead<W>; ++u) {
      if (u < mine) load(u, u, after);
    }
  }
};

// This warp's share of an item's products, `mine` chunks, to `sums`. Leaves x of the next item's first chunks.
template <class W>
__device__ __forceinline__ void multiply_item(ExpertRing<W>& ring, int mine, ItemX<W>& x, float* sums) {
  constexpr int kSixteens = kExpertTileRows / 16, kSumRow = StreamShape<W, kExpertTileRows>::kSumRow;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float acc[kSixteens][1][4] = {};
  for (int i = 0; i < mine; i += kAhead<W>) {
#pragma unroll
    for (int u = 0; u < kAhead<W>; ++u) {
      if (i + u >= mine) break;
      const std::byte* chunk = ring.take();
      const std::byte* chunks[kSixteens];
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) chunks[m] = chunk + m * W::kBytes;
      multiply_chunk<W, kSixteens, 1>(
          chunks, [&](int unit, uint4(&to)[1]) { to[0] = x.of[u][unit]; }, lane, acc);
      const bool after = i + u + kAhead<W> >= mine;
      x.load(u, after ? u : i + u + kAhead<W>, after);
      __syncwarp();
      ring.give_back();
    }
  }
  if (mine == 0) x.load_first(true);
  float* at = sums + (warp * kStreamRows + lane % 4 * 2) * kSumRow + lane / 4;
#pragma unroll
  for (int m = 0; m < kSixteens; ++m) {
    constexpr float kPower = power_of_two(W::kSumPower), kOddPower = power_of_two(W::kSumPower - W::kOdd);
    float* to = at + m * 16;
    to[0] = acc[m][0][0] * kPower;
    to[kSumRow] = acc[m][0][1] * kPower;
    to[8] = acc[m][0][2] * kOddPower;
    to[kSumRow + 8] = acc[m][0][3] * kOddPower;
  }
}

template <class W>
__global__ void __launch_bounds__(kStreamThreads, 1) experts_stream(const __grid_constant__ ExpertStreamArgs args) {
  using Shape = StreamShape<W, kExpertTileRows>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::byte* memory = shared_memory<std::byte>();
  float* sums = reinterpret_cast<float*>(memory + Shape::kRing + Shape::kBarriers);

  if (!args.list_is_there) wait_for_inputs();
  // Not before that: what comes next may take the list for made.
  let_next_begin();
  const int items = *args.list.n_tiles * args.steps, blocks = static_cast<int>(gridDim.x);
  const int warps = kStreamWarps / args.groups, group = warp / warps, first = warp % warps;
  const int mine = first < args.chunks ? (args.chunks - first + warps - 1) / warps : 0;
  ExpertRing<W> ring{memory + warp * Shape::kStages * Shape::kChunk,
                     reinterpret_cast<CopyBarrier*>(memory + Shape::kRing) + warp * Shape::kStages,
                     args,
                     items,
                     group,
                     first,
                     warps,
                     mine};
  ring.begin();
  if (args.list_is_there) wait_for_inputs();
  int item = static_cast<int>(blockIdx.x);
  if (item >= items) return;

  ItemX<W> x{args, first, warps, mine, {}, {}, {}};
  x.now.find(args, item, lane);
  x.load_first(false);
  const int outputs = args.groups * kStreamRows * (args.is_glu ? kExpertTileRows / 2 : kExpertTileRows);
  for (int buffer = 0; item < items; item += blocks, buffer ^= 1) {
    x.next = x.now;
    if (item + blocks < items) x.next.find(args, item + blocks, lane);
    ExpertOutput output;
    output.find(args, item, static_cast<int>(threadIdx.x));
    float* room = sums + buffer * Shape::kSums;
    multiply_item<W>(ring, item % args.steps * args.groups + group < args.slices ? mine : 0, x, room);
    __syncthreads();
    output.write(args, room);
    for (int i = static_cast<int>(threadIdx.x) + kStreamThreads; i < outputs; i += kStreamThreads) {
      output.find(args, item, i);
      output.write(args, room);
    }
    x.now = x.next;
  }
}

}  // namespace

template <class W>
void run_experts_format(ExpertStreamArgs& args, int64_t most_tiles, const DeviceCtx& ctx) {
  args.chunks = static_cast<int>(stream_chunks(int64_t{args.units} * kStreamCols, W::kUnits));
  args.groups = expert_groups(args.chunks);
  args.steps = static_cast<int>(ceil_div(args.slices, args.groups));
  const int64_t blocks = std::min<int64_t>(ctx.multiprocessors, most_tiles * args.steps);
  launch(ctx, experts_stream<W>,
         {dim3(blocks), dim3(kStreamThreads), std::max<int64_t>(kOneBlock, StreamShape<W, kExpertTileRows>::kFixed)},
         args);
}

// In each file that makes kernels for some formats.
#define INGOT_EXPERT_KERNELS(NAME) \
  template void run_experts_format<Stream##NAME>(ExpertStreamArgs&, int64_t most_tiles, const DeviceCtx&);

}  // namespace ingot::cuda
