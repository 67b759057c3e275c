// Rows of f32 that come into shared memory ahead of their use: a block takes every gridDim-th row.
#pragma once

#include "cuda/elements.cuh"

namespace ingot::cuda {

// REQUIRES: rows are multiples of 16 bytes, and so are their addresses. `ring` is of bytes().
template <int kStages>
struct RowRing {
  const View& x;
  std::byte* ring;
  int64_t mine;  // rows of this block

  static int64_t bytes(int64_t cols) { return kStages * (4 * cols + static_cast<int64_t>(sizeof(CopyBarrier))); }

  // By all threads, before any other call.
  __device__ RowRing(const View& from, std::byte* shared, int64_t rows)
      : x(from), ring(shared), mine((rows - blockIdx.x + gridDim.x - 1) / gridDim.x) {
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) barrier_init(barrier(s), 1);
      barrier_inits_done();
    }
    __syncthreads();
    for (int64_t i = 0; i < kStages - 1; ++i) give(i);
  }
  __device__ int64_t row(int64_t i) const { return blockIdx.x + i * gridDim.x; }
  // Row i of the block, when it has arrived. REQUIRES: all threads have read row i - 1 and met since.
  __device__ const std::byte* take(int64_t i) {
    give(i + kStages - 1);
    barrier_wait(barrier(i % kStages), static_cast<uint32_t>(i / kStages % 2));
    return place(i % kStages);
  }

 private:
  __device__ int row_bytes() const { return 4 * x.cols; }
  __device__ std::byte* place(int64_t stage) const { return ring + stage * row_bytes(); }
  __device__ CopyBarrier* barrier(int64_t stage) const {
    return reinterpret_cast<CopyBarrier*>(ring + kStages * row_bytes()) + stage;
  }
  __device__ void give(int64_t i) {
    if (threadIdx.x != 0 || i >= mine) return;
    barrier_expect(barrier(i % kStages), static_cast<uint32_t>(row_bytes()));
    copy_bulk(place(i % kStages), x.row(row(i)), static_cast<uint32_t>(row_bytes()), barrier(i % kStages));
  }
};

}  // namespace ingot::cuda
