// A product whose threads have 8 × 16 results each, in warps of 8 by 4 threads: tiles of 64 kDown × 64 kAcross. What a
// thread multiplies next is on its way into registers while it multiplies, from the next stage too.
#pragma once

#include "ladder/sgemm/sgemm.cuh"

namespace ingot::cuda::sgemm_parts {

template <int kDown, int kAcross_, int kDepth_, int kStages_>
struct WideTile {
  static constexpr int kAcross = kAcross_, kDepth = kDepth_, kStages = kStages_, kWarps = kDown * kAcross;
  static constexpr int kM = 64 * kDown, kN = 64 * kAcross, kThreads = 32 * kWarps;
  struct Stage {
    float a[kDepth][kM + 4];  // turned, word by word
    float b[kDepth][kN];
  };
  static constexpr int64_t kShared = kStages * static_cast<int64_t>(sizeof(Stage));
};

// What this thread copies of each stage: words of a, of which a warp takes eight k of four rows at a time (one sector
// of each row; 32 banks), and 16 bytes of rows of b.
template <class T>
struct WidePart {
  static constexpr int kEights = T::kDepth / 8, kRowsA = 4 * (T::kWarps / kEights), kRowsB = T::kThreads / (T::kN / 4);
  static_assert(T::kWarps % kEights == 0 && T::kM % kRowsA == 0);
  static_assert(T::kThreads % (T::kN / 4) == 0 && T::kDepth % kRowsB == 0);
  const float* a;
  const float* b;
  int64_t a_step, b_step;  // to the next row that it copies

  __device__ WidePart(const Product& p, int row, int col)
      : a(p.a + static_cast<int64_t>(row + a_row()) * p.k + a_k()),
        b(p.b + static_cast<int64_t>(b_k()) * p.n + col + b_col()),
        a_step(int64_t{kRowsA} * p.k),
        b_step(int64_t{kRowsB} * p.n) {}
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ int a_k() { return static_cast<int>(threadIdx.x) % 8 + warp() % kEights * 8; }
  static __device__ int a_row() { return static_cast<int>(threadIdx.x) % 32 / 8 + warp() / kEights * 4; }
  static __device__ int b_k() { return static_cast<int>(threadIdx.x) / (T::kN / 4); }
  static __device__ int b_col() { return static_cast<int>(threadIdx.x) % (T::kN / 4) * 4; }

  // Copies the next kDepth of k.
  __device__ void copy(typename T::Stage& stage) {
    const float* from = a;
#pragma unroll
    for (int i = 0; i < T::kM; i += kRowsA, from += a_step) copy_async_word(&stage.a[a_k()][a_row() + i], from);
    a += T::kDepth;
#pragma unroll
    for (int i = 0; i < T::kDepth; i += kRowsB, b += b_step) copy_async(&stage.b[b_k() + i][b_col()], b);
  }
};

// What a thread multiplies for one k.
struct WideFragment {
  float x[8], y[16];

  __device__ void load(const float* a, const float* b) {
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const float4 v = *reinterpret_cast<const float4*>(a + 32 * g);
      x[4 * g] = v.x, x[4 * g + 1] = v.y, x[4 * g + 2] = v.z, x[4 * g + 3] = v.w;
    }
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const float4 v = *reinterpret_cast<const float4*>(b + 16 * g);
      y[4 * g] = v.x, y[4 * g + 1] = v.y, y[4 * g + 2] = v.z, y[4 * g + 3] = v.w;
    }
  }
  __device__ void multiply(float (&sums)[8][16]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 16; ++j) sums[i][j] = __fmaf_rn(x[i], y[j], sums[i][j]);
  }
};

template <class T, int kBand>
__global__ void __launch_bounds__(T::kThreads, 1) with_fragments_ahead(const Product p) {
  let_next_begin();
  wait_for_inputs();
  auto* ring = shared_memory<typename T::Stage>();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / T::kAcross * 64 + lane % 8 * 4, col = warp % T::kAcross * 64 + lane / 8 * 4;
  // Tiles in bands, as tile_of() has them.
  const int rows = p.m / T::kM, cols = p.n / T::kN, band = static_cast<int>(blockIdx.x) / (kBand * cols);
  const int in_band = static_cast<int>(blockIdx.x) - band * kBand * cols, high = min(kBand, rows - band * kBand);
  const int first_row = (band * kBand + in_band % high) * T::kM, first_col = in_band / high * T::kN;
  WidePart<T> part(p, first_row, first_col);
  float sums[8][16] = {};
  for (int s = 0; s < T::kStages - 1; ++s) {
    if (s * T::kDepth < p.k) part.copy(ring[s]);
    commit_copies();
  }
  copies_done<T::kStages - 2>();
  __syncthreads();
  WideFragment now, next;
  now.load(ring[0].a[0] + row, ring[0].b[0] + col);
  int at = 0, free = T::kStages - 1;
  for (int first = 0; first < p.k; first += T::kDepth) {
    if (first + (T::kStages - 1) * T::kDepth < p.k) part.copy(ring[free]);
    commit_copies();
    free = at;
    at = at == T::kStages - 1 ? 0 : at + 1;
#pragma unroll
    for (int k = 0; k < T::kDepth; ++k) {
      if (k < T::kDepth - 1) {
        next.load(ring[free].a[k + 1] + row, ring[free].b[k + 1] + col);
      } else {
        copies_done<T::kStages - 2>();
        __syncthreads();  // the next stage is there, and nobody reads this one any more
        next.load(ring[at].a[0] + row, ring[at].b[0] + col);
      }
      now.multiply(sums);
      now = next;
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float* to = p.out + static_cast<int64_t>(first_row + row + i / 4 * 32 + i % 4) * p.n + first_col + col;
#pragma unroll
    for (int j = 0; j < 16; j += 4)
      *reinterpret_cast<float4*>(to + 4 * j) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
  }
}

// False: the product is not made of such tiles.
template <class T, int kBand>
bool run_wide_tiles(const Product& p, const DeviceCtx& ctx) {
  if (!p.has_tiles(T::kM, T::kN, T::kDepth) || p.k == 0) return false;
  const int64_t tiles = static_cast<int64_t>(p.m / T::kM) * (p.n / T::kN);
  if (tiles > 0) launch(ctx, with_fragments_ahead<T, kBand>, {tiles, T::kThreads, T::kShared}, p);
  return true;
}

}  // namespace ingot::cuda::sgemm_parts
