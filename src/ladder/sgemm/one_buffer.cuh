// A product by tiles that are loaded 16 bytes at a time, a's turned in shared memory so that it is read so as well.
#pragma once

#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::sgemm_parts {

inline constexpr int kOneDepth = 8;

template <bool kWarps>
__global__ void __launch_bounds__(kThreads, 2) one_buffer(const Product p) {
  let_next_begin();
  wait_for_inputs();
  __shared__ __align__(16) float a[kOneDepth][kTile + 4];
  __shared__ __align__(16) float b[kOneDepth][kTile];
  const int thread = static_cast<int>(threadIdx.x);
  const TileOf tile = tile_of(static_cast<int>(blockIdx.x), p.m / kTile, p.n / kTile);
  const Place at = kWarps ? place_in_warps() : place_in_rows();
  const int a_row = thread / 2, a_k = thread % 2 * 4, b_k = thread / 32, b_col = thread % 32 * 4;
  const float* from_a = p.a + static_cast<int64_t>(tile.row + a_row) * p.k + a_k;
  const float* from_b = p.b + static_cast<int64_t>(b_k) * p.n + tile.col + b_col;
  float sums[8][8] = {};
  for (int first = 0; first < p.k; first += kOneDepth) {
    const float4 x = *reinterpret_cast<const float4*>(from_a + first);
    a[a_k][a_row] = x.x;
    a[a_k + 1][a_row] = x.y;
    a[a_k + 2][a_row] = x.z;
    a[a_k + 3][a_row] = x.w;
    *reinterpret_cast<float4*>(&b[b_k][b_col]) =
        *reinterpret_cast<const float4*>(from_b + static_cast<int64_t>(first) * p.n);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kOneDepth; ++k) multiply_k(sums, a[k], b[k], at);
    __syncthreads();
  }
  store_sums(sums, p, tile.row, tile.col, at);
}

}  // namespace ingot::cuda::sgemm_parts
