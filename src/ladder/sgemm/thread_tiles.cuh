// A product whose threads have 8 × kCols results each, in warps of 8 by 4 threads; tiles come by copies ahead, a's in
// rows as it lies in memory: a thread reads four k of a row at a time.
#pragma once

#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::sgemm_parts {

template <int kDown, int kAcross, int kCols_, int kDepth_, int kStages_, int kBlocks_>
struct ThreadTiles {
  static constexpr int kCols = kCols_, kDepth = kDepth_, kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kWarpsAcross = kAcross, kThreads = kDown * kAcross * 32;
  static constexpr int kM = 64 * kDown, kN = 4 * kCols * kAcross;
  // Rows of a: 4 floats more than they are, so that eight of them one after another meet in no bank.
  struct Stage {
    float a[kM][kDepth + 4];
    float b[kDepth][kN];
  };
  static constexpr int64_t kShared = kStages * static_cast<int64_t>(sizeof(Stage));
};

// What this thread copies of each stage, 16 bytes at a time.
template <class T>
struct TilePart {
  static constexpr int kPiecesA = T::kDepth / 4, kPiecesB = T::kN / 4;
  static constexpr int kRowsA = T::kThreads / kPiecesA, kRowsB = T::kThreads / kPiecesB;
  static_assert(T::kThreads % kPiecesA == 0 && T::kM % kRowsA == 0);
  static_assert(T::kThreads % kPiecesB == 0 && T::kDepth % kRowsB == 0);
  const float* a;
  const float* b;
  int64_t a_step, b_step;  // to the next row that it copies

  __device__ TilePart(const Product& p, int row, int col)
      : a(p.a + static_cast<int64_t>(row + a_row()) * p.k + a_k()),
        b(p.b + static_cast<int64_t>(b_k()) * p.n + col + b_col()),
        a_step(int64_t{kRowsA} * p.k),
        b_step(int64_t{kRowsB} * p.n) {}
  static __device__ int a_row() { return static_cast<int>(threadIdx.x) / kPiecesA; }
  static __device__ int a_k() { return static_cast<int>(threadIdx.x) % kPiecesA * 4; }
  static __device__ int b_k() { return static_cast<int>(threadIdx.x) / kPiecesB; }
  static __device__ int b_col() { return static_cast<int>(threadIdx.x) % kPiecesB * 4; }

  // Copies the next kDepth of k.
  __device__ void copy(typename T::Stage& stage) {
    const float* from = a;
#pragma unroll
    for (int i = 0; i < T::kM; i += kRowsA, from += a_step) copy_async(&stage.a[a_row() + i][a_k()], from);
    a += T::kDepth;
#pragma unroll
    for (int i = 0; i < T::kDepth; i += kRowsB, b += b_step) copy_async(&stage.b[b_k() + i][b_col()], b);
  }
};

// sums += the products of one stage; row and col: of the thread's first result in the tile.
template <class T>
__device__ inline void multiply_stage(float (&sums)[8][T::kCols], const typename T::Stage& stage, int row, int col) {
#pragma unroll
  for (int k = 0; k < T::kDepth; k += 4) {
    float x[8][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float4 v = *reinterpret_cast<const float4*>(&stage.a[row + 8 * i][k]);
      x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
    }
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      float y[T::kCols];
#pragma unroll
      for (int j = 0; j < T::kCols; j += 4) {
        const float4 v = *reinterpret_cast<const float4*>(&stage.b[k + kk][col + 4 * j]);
        y[j] = v.x, y[j + 1] = v.y, y[j + 2] = v.z, y[j + 3] = v.w;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < T::kCols; ++j) sums[i][j] = __fmaf_rn(x[i][kk], y[j], sums[i][j]);
    }
  }
}

template <class T, int kBand>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) by_thread_tiles(const Product p) {
  let_next_begin();
  wait_for_inputs();
  auto* ring = shared_memory<typename T::Stage>();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / T::kWarpsAcross * 64 + lane % 8, col = warp % T::kWarpsAcross * 4 * T::kCols + lane / 8 * 4;
  // Tiles in bands, as tile_of() has them.
  const int rows = p.m / T::kM, cols = p.n / T::kN, band = static_cast<int>(blockIdx.x) / (kBand * cols);
  const int in_band = static_cast<int>(blockIdx.x) - band * kBand * cols, high = min(kBand, rows - band * kBand);
  const int first_row = (band * kBand + in_band % high) * T::kM, first_col = in_band / high * T::kN;
  TilePart<T> part(p, first_row, first_col);
  float sums[8][T::kCols] = {};
  for (int s = 0; s < T::kStages - 1; ++s) {
    if (s * T::kDepth < p.k) part.copy(ring[s]);
    commit_copies();
  }
  int now = 0, next = T::kStages - 1;
  for (int first = 0; first < p.k; first += T::kDepth) {
    copies_done<T::kStages - 2>();
    __syncthreads();  // and nobody reads the stage that is filled next
    if (first + (T::kStages - 1) * T::kDepth < p.k) part.copy(ring[next]);
    commit_copies();
    multiply_stage<T>(sums, ring[now], row, col);
    now = now == T::kStages - 1 ? 0 : now + 1;
    next = next == T::kStages - 1 ? 0 : next + 1;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float* to = p.out + static_cast<int64_t>(first_row + row + 8 * i) * p.n + first_col + col;
#pragma unroll
    for (int j = 0; j < T::kCols; j += 4)
      *reinterpret_cast<float4*>(to + 4 * j) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
  }
}

// False: the product is not made of such tiles.
template <class T, int kBand>
bool run_thread_tiles(const Product& p, const DeviceCtx& ctx) {
  if (!p.has_tiles(T::kM, T::kN, T::kDepth)) return false;
  const int64_t tiles = static_cast<int64_t>(p.m / T::kM) * (p.n / T::kN);
  if (tiles > 0) launch(ctx, by_thread_tiles<T, kBand>, {tiles, T::kThreads, T::kShared}, p);
  return true;
}

}  // namespace ingot::cuda::sgemm_parts
