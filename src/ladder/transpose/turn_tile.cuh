// A tile of 64 x 64 values turned by a block, 16 bytes at every access.
#pragma once

#include "cuda/elements.cuh"

namespace ingot::cuda {

inline constexpr int kTurnTile = 64, kTurnPieces = kTurnTile / 4, kTurnThreads = kTurnPieces * kTurnPieces;
inline constexpr int64_t kTurnBytes = kTurnTile * kTurnTile * 4;  // of shared memory

// Where 16-byte piece p of row c of the turned tile lies: eight threads that write pieces of rows 4, 8, 12 … and eight
// that read one row's pieces are each in eight different groups of banks.
__device__ constexpr int turn_place(int c, int p) { return c * kTurnPieces + (p ^ (c / 4 % kTurnPieces)); }

// From column `left` and row `top` of x. By all threads of a block; `x` has so many rows.
__device__ inline void turn_tile(const View& x, const View& out, int64_t rows, int64_t left, int64_t top, bool wide) {
  auto* tile = shared_memory<std::byte>();
  const int across = static_cast<int>(threadIdx.x) % kTurnPieces, down = static_cast<int>(threadIdx.x) / kTurnPieces;
  Four v[4] = {};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (top + 4 * down + k < rows)
      v[k] = get_four(x.row(top + 4 * down + k), left / 4 + across, x.cols, DType::kF32, wide);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Four turned = {{v[0].v[k], v[1].v[k], v[2].v[k], v[3].v[k]}};
    store_four(tile, turn_place(4 * across + k, down), DType::kF32, turned);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int c = down + k * kTurnPieces;
    if (left + c < x.cols)
      put_four(out.row(left + c), top / 4 + across, rows, DType::kF32, wide,
               load_four(tile, turn_place(c, across), DType::kF32));
  }
}

}  // namespace ingot::cuda
