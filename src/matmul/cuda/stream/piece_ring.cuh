// What kernels of 16 warps share that read packed weights 16 rows at a time for one to eight rows of x, and do more
// than one thing in a launch: a warp's weights on their way from one part of the work to the next, and its sums.
#pragma once

#include <algorithm>

#include "matmul/cuda/stream/stream_formats.cuh"
#include "matmul/cuda/stream/stream_packing.h"

namespace ingot::cuda {

inline constexpr int kPieceWarps = 16, kPieceThreads = 32 * kPieceWarps;
inline constexpr int kSumRow = kPieceWarps + 1;  // floats between rows of sums, for a column of each warp

// This block's share of so many times `each` packed rows, in sixteens.
struct PieceShare {
  int first = 0, end = 0;
  __device__ static PieceShare of(int all, int each = 1) {
    const auto block = static_cast<int64_t>(blockIdx.x);
    return {static_cast<int>(block * all / gridDim.x) * each, static_cast<int>((block + 1) * all / gridDim.x) * each};
  }
  // What of it lies in [from, to), as seen from there.
  __device__ PieceShare within(int from, int to) const {
    const int begin = max(first, from), last = max(begin, min(end, to));
    return {begin - from, last - from};
  }
  __device__ int count() const { return end - first; }
};
// The most that a block can have.
__host__ __device__ constexpr int most_of_share(int all, int blocks) { return (all + blocks - 1) / blocks; }

// A warp's pieces on their way: a piece is a chunk of 16 packed rows. Ring::ask() asks for the one that comes next, by
// copy(), or says that none is left or known.
template <class Ring, int kBytes, int kCount>
struct PieceRing {
  static constexpr int kStages = kCount / 2 * 2;
  static constexpr int kAll = kPieceWarps * kStages * kBytes;  // of all warps
  static constexpr int kBarriers = kPieceWarps * kStages * static_cast<int>(sizeof(CopyBarrier));

  __device__ explicit PieceRing(std::byte* ring) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    memory_ = ring + warp * kStages * kBytes;
    barriers_ = reinterpret_cast<CopyBarrier*>(ring + kAll) + warp * kStages;
    if (threadIdx.x % 32 == 0) {
      for (int i = 0; i < kStages; ++i) barrier_init(barriers_ + i, 1);
      barrier_inits_done();
    }
    __syncwarp();
  }
  // Asks for all that there is room for.
  __device__ void fill() {
#pragma unroll 1
    while (free_ > 0 && static_cast<Ring*>(this)->ask()) {
      --free_;
      if (++to_ == kStages) to_ = 0;
    }
  }
  // The piece that comes next, or the one behind it, when it is there.
  __device__ const std::byte* take(int behind = 0) {
    barrier_wait(barriers_ + stage_ + behind, parity_);
    return memory_ + (stage_ + behind) * kBytes;
  }
  // All lanes have read so many.
  __device__ void give_back(int pieces) {
    free_ += pieces;
    stage_ += pieces;
    if (stage_ == kStages) stage_ = 0, parity_ ^= 1;
    fill();
  }

 protected:
  // By one lane; no bytes: a piece that nobody reads.
  __device__ void copy(const std::byte* from, int bytes) {
    barrier_expect(barriers_ + to_, static_cast<uint32_t>(bytes));
    if (bytes > 0) copy_bulk(memory_ + to_ * kBytes, from, static_cast<uint32_t>(bytes), barriers_ + to_);
  }

 private:
  std::byte* memory_;
  CopyBarrier* barriers_;
  int to_ = 0;          // the stage that the next piece will have
  int free_ = kStages;  // stages that have nothing
  int stage_ = 0;       // of the piece that is taken next
  uint32_t parity_ = 0;
};

// A lane's eight columns of a unit of a row in shared memory, zeros beyond its last unit.
template <class W>
__device__ __forceinline__ uint4 unit_of(const std::byte* row, int unit, int units) {
  if (W::kUnits > 1 && unit >= units) return make_uint4(0, 0, 0, 0);
  const int t = static_cast<int>(threadIdx.x) % 4;
  const std::byte* from = row + unit * (kStreamCols * 2) + t * (W::kBySixteens ? 8 : 16);
  if constexpr (!W::kBySixteens) return *reinterpret_cast<const uint4*>(from);
  const uint2 a = *reinterpret_cast<const uint2*>(from), b = *reinterpret_cast<const uint2*>(from + 32);
  return make_uint4(a.x, a.y, b.x, b.y);
}

// The sums of a warp over its columns, of 16 packed rows and row `r` of x, to its column of `to`, if this lane has
// them.
template <class W>
__device__ __forceinline__ void leave_sums(const float (&of)[4], int r, float* to) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (lane % 4 != r / 2) return;
  to[lane / 4 * kSumRow + warp] = of[r % 2] * power_of_two(W::kSumPower);
  to[(lane / 4 + 8) * kSumRow + warp] = of[2 + r % 2] * power_of_two(W::kSumPower - W::kOdd);
}

}  // namespace ingot::cuda
