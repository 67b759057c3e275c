// One launch: 16 blocks of a cluster read each other's counts in shared memory, without a way through global memory.
#include "ladder/cuda_step.cuh"
#include "ladder/route/route.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace route_parts;

constexpr int kBlocks = 16, kLarge = 1024, kLargeWarps = kLarge / 32, kMostEach = 8;
constexpr int64_t kMostPlaces = int64_t{kBlocks} * kLarge * kMostEach;

struct Room {
  uint32_t seen[kLargeWarps][kMost];    // of a warp; then where its places begin in `sorted`
  uint32_t sorted[kLarge * kMostEach];  // the block's places by expert
  uint8_t expert[kLarge * kMostEach];   // of each
  uint32_t counts[kMost];               // of the block: the others read it
  uint32_t own_start[kMost];            // of the expert in `sorted`
  uint32_t start[kMost];                // add it to a place in `sorted`: that in the result
  uint32_t sums[2][kMost / 32];
};

// Of two values of each of the first 256 threads, what comes before them.
__device__ inline uint2 scan_two(uint2 own, uint32_t (&room)[2][kMost / 32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint2 sum = own;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    const uint32_t x = __shfl_up_sync(0xffffffffu, sum.x, d), y = __shfl_up_sync(0xffffffffu, sum.y, d);
    if (lane >= d) sum = make_uint2(sum.x + x, sum.y + y);
  }
  if (lane == 31 && warp < kMost / 32) {
    room[0][warp] = sum.x;
    room[1][warp] = sum.y;
  }
  __syncthreads();
  for (int w = 0; w < warp && w < kMost / 32; ++w) sum = make_uint2(sum.x + room[0][w], sum.y + room[1][w]);
  return make_uint2(sum.x - own.x, sum.y - own.y);
}

// `each` places of every thread, block b's from b · 1024 · each on.
__global__ void __launch_bounds__(kLarge, 1) route(const Work w, int each) {
  let_next_begin();
  wait_for_inputs();
  Room& room = *shared_memory<Room>();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32, rank = cluster_rank();
  const int64_t begin = static_cast<int64_t>(rank) * kLarge * each;
  const int at = warp * 32 * each + lane,
            count = static_cast<int>(min(max(w.n - begin, int64_t{0}), int64_t{kLarge} * each));
  uint32_t experts[kMostEach];
  uint32_t ranks[kMostEach];
#pragma unroll
  for (int j = 0; j < kMostEach; ++j)
    experts[j] = j < each && at + 32 * j < count ? w.experts[begin + at + 32 * j] : kNone;
  for (int i = thread; i < kLargeWarps * kMost; i += kLarge) room.seen[0][i] = 0;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kMostEach; ++j) ranks[j] = j < each ? rank_place(experts[j], room.seen[warp]) : 0;
  __syncthreads();
  uint32_t own = 0;
  if (thread < kMost) {
#pragma unroll 8
    for (int i = 0; i < kLargeWarps; ++i) {
      const uint32_t of_warp = room.seen[i][thread];
      room.seen[i][thread] = own;
      own += of_warp;
    }
    room.counts[thread] = own;
  }
  cluster_sync();
  uint32_t before = 0, total = 0;
  if (thread < kMost) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const uint32_t other = *of_cluster(room.counts + thread, b);
      total += other;
      before += b < rank ? other : 0;
    }
  }
  const uint2 first = scan_two(make_uint2(total, own), room.sums);  // of all blocks, and of this one
  if (thread < kMost) {
    room.start[thread] = first.x + before - first.y;
    room.own_start[thread] = first.y;
    if (rank == 0 && thread < w.count) w.first[thread] = first.x;
    if (rank == 0 && thread == 0) w.first[w.count] = static_cast<uint32_t>(w.n);
  }
  cluster_sync();  // nobody reads this block's counts after it
#pragma unroll
  for (int j = 0; j < kMostEach; ++j) {
    if (experts[j] == kNone) continue;
    const uint32_t to = room.own_start[experts[j]] + room.seen[warp][experts[j]] + ranks[j];
    room.sorted[to] = static_cast<uint32_t>(begin) + static_cast<uint32_t>(at + 32 * j);
    room.expert[to] = static_cast<uint8_t>(experts[j]);
  }
  __syncthreads();
  for (int i = thread; i < count; i += kLarge)
    w.place[room.start[room.expert[i]] + static_cast<uint32_t>(i)] = room.sorted[i];
}

}  // namespace

void run(const Route& op, Ctx& ctx) {
  // 16 blocks in a cluster: compute capability 9.0 and 10.0 alone.
  if (op.experts.cols > kMostPlaces || ctx.arch < 90 || ctx.arch >= 110) return by_three_kernels(op, ctx);
  const auto each = static_cast<int>(ceil_div(op.experts.cols, int64_t{kBlocks} * kLarge));
  launch_clusters(ctx, kBlocks, route, {kBlocks, kLarge, sizeof(Room)}, work_of(op, ctx), each);
}

}  // namespace ingot::cuda::INGOT_STEP
