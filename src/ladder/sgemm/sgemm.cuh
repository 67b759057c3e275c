// What the steps of sgemm share.
#pragma once

#include "cuda/kernel.cuh"
#include "ladder/sgemm/sgemm.h"

namespace ingot::cuda::sgemm_parts {

struct Product {
  const float* a;
  const float* b;
  float* out;
  int m, n, k;  // strides are k, n and n

  // Whether it is made of such tiles alone.
  bool has_tiles(int rows, int cols, int depth) const { return m % rows == 0 && n % cols == 0 && k % depth == 0; }
  bool is_empty() const { return m == 0 || n == 0; }
};

inline Product product_of(const Sgemm& op, int64_t rows) {
  return {reinterpret_cast<const float*>(op.a.data),
          reinterpret_cast<const float*>(op.b.data),
          reinterpret_cast<float*>(op.out.data),
          static_cast<int>(rows),
          static_cast<int>(op.out.cols),
          static_cast<int>(op.a.cols)};
}

// A thread for each result; kColumns: neighbours have neighbouring columns, else rows.
template <bool kColumns>
__global__ void __launch_bounds__(256) one_each(const Product p) {
  let_next_begin();
  wait_for_inputs();
  const int x = static_cast<int>(blockIdx.x * 16 + threadIdx.x % 16),
            y = static_cast<int>(blockIdx.y * 16 + threadIdx.x / 16);
  const int row = kColumns ? y : x, col = kColumns ? x : y;
  if (row >= p.m || col >= p.n) return;
  float sum = 0;
  for (int k = 0; k < p.k; ++k)
    sum = __fmaf_rn(p.a[static_cast<int64_t>(row) * p.k + k], p.b[static_cast<int64_t>(k) * p.n + col], sum);
  p.out[static_cast<int64_t>(row) * p.n + col] = sum;
}

// What has no tiles.
inline void by_columns(const Product& p, const DeviceCtx& ctx) {
  if (!p.is_empty()) launch(ctx, one_each<true>, {dim3(ceil_div(p.n, 16), ceil_div(p.m, 16)), 256}, p);
}

// --- Tiles of 128 × 128, 256 threads, 8 × 8 results each, as two by two groups of 4 × 4 ---

inline constexpr int kTile = 128, kThreads = 256;

// Where a thread's results are: rows row + 32 i or row + 64 i, columns likewise.
struct Place {
  int row, col;          // of the first group
  int rows_on, cols_on;  // to the next
};

// Warps of 64 × 32 results: a warp reads 96 values of shared memory for each k, where 16 rows of threads read 144.
__device__ inline Place place_in_warps() {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  return {warp / 4 * 64 + lane / 4 * 4, warp % 4 * 32 + lane % 4 * 4, 32, 16};
}
__device__ inline Place place_in_rows() {
  return {static_cast<int>(threadIdx.x) / 16 * 4, static_cast<int>(threadIdx.x) % 16 * 4, 64, 64};
}

// sums += the products of one k; a and b: the tile's values of this k.
__device__ inline void multiply_k(float (&sums)[8][8], const float* a, const float* b, const Place& at) {
  float x[8], y[8];
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    const float4 u = *reinterpret_cast<const float4*>(a + at.row + g * at.rows_on);
    const float4 v = *reinterpret_cast<const float4*>(b + at.col + g * at.cols_on);
    x[4 * g] = u.x, x[4 * g + 1] = u.y, x[4 * g + 2] = u.z, x[4 * g + 3] = u.w;
    y[4 * g] = v.x, y[4 * g + 1] = v.y, y[4 * g + 2] = v.z, y[4 * g + 3] = v.w;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) sums[i][j] = __fmaf_rn(x[i], y[j], sums[i][j]);
}

__device__ inline void store_sums(const float (&sums)[8][8], const Product& p, int first_row, int first_col,
                                  const Place& at) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float* row =
        p.out + static_cast<int64_t>(first_row + at.row + i / 4 * at.rows_on + i % 4) * p.n + first_col + at.col;
#pragma unroll
    for (int g = 0; g < 2; ++g)
      *reinterpret_cast<float4*>(row + g * at.cols_on) =
          make_float4(sums[i][4 * g], sums[i][4 * g + 1], sums[i][4 * g + 2], sums[i][4 * g + 3]);
  }
}

// Blocks of a tile each, eight tiles high before the next column: what they read together stays in the cache.
struct TileOf {
  int row, col;
};
__device__ inline TileOf tile_of(int index, int rows, int cols) {
  const int high = 8, band = index / (high * cols), first = band * high, in_band = index - band * high * cols;
  const int height = rows - first < high ? rows - first : high;
  return {(first + in_band % height) * kTile, in_band / height * kTile};
}

template <class Kernel>
void by_tiles(const Product& p, const DeviceCtx& ctx, Kernel kernel, int64_t shared) {
  const int64_t tiles = static_cast<int64_t>(p.m / kTile) * (p.n / kTile);
  if (tiles > 0) launch(ctx, kernel, {tiles, kThreads, shared}, p);
}

}  // namespace ingot::cuda::sgemm_parts
