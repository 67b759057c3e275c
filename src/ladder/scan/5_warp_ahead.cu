// A ring of bulk copies and a warp that sums tiles as they come: what a tile waits for was published long before.
#include "ladder/cuda_step.cuh"
#include "ladder/scan/fixed_groups.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using scan_parts::add_words;
using scan_parts::make_word;

// One block a multiprocessor, all at the same time, block b with tiles b, b + blocks, …. Warp 0 copies, warp 1 sums and
// publishes, warp 2 finds what comes before a tile, and the others, 1,024 values each, write running sums.
constexpr int kScanners = 8, kThreads = 32 * (3 + kScanners), kQuads = 8, kPart = 128 * kQuads;
constexpr int kTile = kPart * kScanners, kStages = 6, kGroup = 256;

struct Room {
  float ring[kStages][kTile];
  CopyBarrier full[kStages];   // the tile is there
  CopyBarrier known[kStages];  // and what comes before it
  CopyBarrier summed[kStages];
  CopyBarrier empty[kStages];
  float parts[kStages][kScanners];  // before each part, within the tile
  float total[kStages];
  float before[kStages];  // of the tile
};

struct Work {
  const float* x;
  float* out;
  int64_t n, tiles;
  uint64_t* sums;    // [tiles]
  uint64_t* groups;  // what comes before each group, from the second on
};

// Calls f(tile, stage, parity of its turn) for the tiles of this block.
template <class F>
__device__ inline void each_tile(int64_t tiles, F&& f) {
  int stage = 0;
  uint32_t parity = 0;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    f(tile, stage, parity);
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
}

__device__ inline void copy_tiles(const Work& w, Room& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int turn = 0;
  each_tile(w.tiles, [&](int64_t tile, int stage, uint32_t parity) {
    if (turn++ >= kStages) barrier_wait(room.empty + stage, parity ^ 1);
    const float* from = w.x + tile * kTile;
    if ((tile + 1) * kTile <= w.n) {
      if (lane == 0) {
        barrier_expect(room.full + stage, kTile * 4);
        copy_bulk(room.ring[stage], from, kTile * 4, room.full + stage);
      }
    } else {
      for (int i = lane; i < kTile; i += 32) room.ring[stage][i] = tile * kTile + i < w.n ? from[i] : 0.0f;
      __syncwarp();
      if (lane == 0) barrier_arrive(room.full + stage);
    }
  });
}

__device__ inline void sum_tiles(const Work& w, Room& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  each_tile(w.tiles, [&](int64_t tile, int stage, uint32_t parity) {
    barrier_wait(room.full + stage, parity);
    const auto* from = reinterpret_cast<const float4*>(room.ring[stage]) + lane;
    float total = 0;
#pragma unroll
    for (int p = 0; p < kScanners; ++p) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < kQuads; ++k) {
        const float4 v = from[32 * (p * kQuads + k)];
        sum += (v.x + v.y) + (v.z + v.w);
      }
      if (lane == 0) room.parts[stage][p] = total;
      total += warp_sum(sum);
    }
    if (lane == 0) {
      publish(w.sums + tile, make_word(scan_parts::kOwnSum, total));
      room.total[stage] = total;
      barrier_arrive(room.summed + stage);
    }
    __syncwarp();
  });
}

__device__ inline void find_before(const Work& w, Room& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  each_tile(w.tiles, [&](int64_t tile, int stage, uint32_t parity) {
    barrier_wait(room.summed + stage, parity);
    const int64_t group = tile / kGroup;
    const int in_group = static_cast<int>(tile % kGroup);
    const float inside = add_words<kGroup / 32>(w.sums + group * kGroup, in_group);
    if (lane == 0) {
      const float before = group > 0 ? scan_parts::sum_of(scan_parts::wait_for_word(w.groups + group)) : 0.0f;
      if (in_group == kGroup - 1)
        publish(w.groups + group + 1, make_word(scan_parts::kAllSums, before + (inside + room.total[stage])));
      room.before[stage] = before + inside;
      barrier_arrive(room.known + stage);
    }
    __syncwarp();
  });
}

__device__ inline void write_sums(const Work& w, Room& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32, part = static_cast<int>(threadIdx.x) / 32 - 3;
  each_tile(w.tiles, [&](int64_t tile, int stage, uint32_t parity) {
    barrier_wait(room.full + stage, parity);
    float4 v[kQuads];
    const auto* from = reinterpret_cast<const float4*>(room.ring[stage] + part * kPart) + lane;
#pragma unroll
    for (int k = 0; k < kQuads; ++k) v[k] = from[32 * k];
    scan_parts::scan_quads(v);
    barrier_wait(room.known + stage, parity);
    const float before = room.before[stage] + room.parts[stage][part];
    __syncwarp();
    if (lane == 0) barrier_arrive(room.empty + stage);
    scan_parts::store_quads(v, before, w.out, tile * kTile + part * kPart, w.n);
  });
}

__global__ void __launch_bounds__(kThreads, 1) scan(const Work w) {
  let_next_begin();
  Room& room = *shared_memory<Room>();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(room.full + s, 1);
      barrier_init(room.known + s, 1);
      barrier_init(room.summed + s, 1);
      barrier_init(room.empty + s, kScanners);
    }
    barrier_inits_done();
  }
  __syncthreads();
  wait_for_inputs();
  switch (threadIdx.x / 32) {
    case 0:
      return copy_tiles(w, room);
    case 1:
      return sum_tiles(w, room);
    case 2:
      return find_before(w, room);
    default:
      return write_sums(w, room);
  }
}

}  // namespace

void run(const Scan& op, Ctx& ctx) {
  const int64_t n = op.x.cols, tiles = ceil_div(n, kTile);
  if (n == 0) return;
  if (ctx.arch < 90) return scan_parts::by_fixed_groups(op, ctx);  // no bulk copies
  auto* words = reinterpret_cast<uint64_t*>(ctx.scratch);
  fill_bytes(words, 0, 8 * (tiles + tiles / kGroup + 1), ctx.stream);
  const Work work{
      reinterpret_cast<const float*>(op.x.data), reinterpret_cast<float*>(op.out.data), n, tiles, words, words + tiles};
  const Launch shape{.grid = std::min<int64_t>(ctx.multiprocessors, tiles),
                     .threads = kThreads,
                     .shared = sizeof(Room),
                     .together = true};
  launch(ctx, scan, shape, work);
}

}  // namespace ingot::cuda::INGOT_STEP
