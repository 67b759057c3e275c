// Bulk copies into shared memory, a ring for each warp: no register waits for memory, so more of it is in flight.
#include "ladder/cuda_step.cuh"
#include "ladder/reduce/reduce.cuh"
#include "ladder/reduce/reduce.h"

namespace ingot::cuda::INGOT_STEP {
namespace {

using namespace reduce_parts;

// 96 KiB of a block are in flight, two blocks on a multiprocessor. Loads into registers end at 4,310 GB/s on an H200.
constexpr int kStages = 3, kPiece = 4096, kWarps = kThreads / 32;
constexpr int kPieceFloats = kPiece / 4, kBulkBlocks = 264;
constexpr int64_t kShared = int64_t{kWarps} * kStages * (kPiece + 8) + 128;
constexpr int64_t kFewValues = 1 << 18;  // below it no ring fills

// The pieces first, first + step, … of x, by one warp.
__device__ float sum_pieces(const float* x, int64_t n, int64_t first, int64_t step, float* ring, CopyBarrier* full) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t whole = n / kPieceFloats, mine = first < whole ? ceil_div(whole - first, step) : 0;
  const auto give = [&](int64_t i) {
    CopyBarrier* barrier = full + i % kStages;
    barrier_expect(barrier, kPiece);
    copy_bulk(ring + i % kStages * kPieceFloats, x + (first + i * step) * kPieceFloats, kPiece, barrier);
  };
  if (lane == 0)
    for (int64_t i = 0; i < kStages && i < mine; ++i) give(i);
  float sums[8] = {};
  for (int64_t i = 0; i < mine; ++i) {
    barrier_wait(full + i % kStages, static_cast<uint32_t>(i / kStages % 2));
    const auto* piece = reinterpret_cast<const float4*>(ring + i % kStages * kPieceFloats) + lane;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float4 v = piece[32 * k];
      sums[k] += (v.x + v.y) + (v.z + v.w);
    }
    __syncwarp();
    if (lane == 0 && i + kStages < mine) give(i + kStages);
  }
  if (first == whole % step)  // the piece that is not whole
    for (int64_t i = whole * kPieceFloats + lane; i < n; i += 32) sums[0] += x[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

__global__ void __launch_bounds__(kThreads)
    reduce(const float* x, int64_t n, float* sums, uint32_t* ticket, float* out) {
  let_next_begin();
  float* rings = shared_memory<float>();
  auto* full = reinterpret_cast<CopyBarrier*>(rings + kWarps * kStages * kPieceFloats);
  auto* room = reinterpret_cast<float*>(full + kWarps * kStages);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kWarps * kStages; ++i) barrier_init(full + i, 1);
    barrier_inits_done();
  }
  __syncthreads();
  wait_for_inputs();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + warp,
                step = static_cast<int64_t>(gridDim.x) * kWarps;
  const float sum = sum_pieces(x, n, first, step, rings + warp * kStages * kPieceFloats, full + warp * kStages);
  add_blocks(sum, sums, ticket, out, room);
}

}  // namespace

void run(const Reduce& op, Ctx& ctx) {
  const int64_t n = op.x.cols;
  const auto* x = reinterpret_cast<const float*>(op.x.data);
  auto* sums = reinterpret_cast<float*>(ctx.scratch);
  auto* out = reinterpret_cast<float*>(op.out.data);
  if (n < kFewValues || ctx.arch < 90) {  // there are no bulk copies before 9.0
    launch(ctx, with_ticket, {blocks_for(n), kThreads}, x, n, sums, ctx.tickets, out);
  } else {
    launch(ctx, reduce, {kBulkBlocks, kThreads, kShared}, x, n, sums, ctx.tickets, out);
  }
}

}  // namespace ingot::cuda::INGOT_STEP
