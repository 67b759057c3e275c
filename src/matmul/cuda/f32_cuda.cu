// Weights of F32 and many rows: tiles of 64 × 64, four by four sums of each thread. The same sums in the same order as
// run_any()'s: of each 64 columns first, then of those.
#include "base/check.h"
#include "matmul/cuda/decode_stage.cuh"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256, kTile = 64, kCols = 64;
constexpr int kStride = kTile + 4;  // of a column in shared memory
constexpr int kLoads = kTile * kCols / 4 / kThreads;
static_assert(kCols == kStageCols<F32>);

// A stage of 64 rows, in registers on its way to shared memory. A lane has a row: columns are written to 32 banks.
struct Staged {
  float4 v[kLoads];

  __device__ void load(const float* from, int64_t stride, int64_t first, int64_t rows, int64_t col, int64_t cols) {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t row = first + thread % kTile, c = col + (i * (kThreads / kTile) + thread / kTile) * 4;
      v[i] = make_float4(0, 0, 0, 0);
      if (row < rows && c < cols) v[i] = *reinterpret_cast<const float4*>(from + row * stride + c);
    }
  }
  __device__ void store(float* to) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      float* at = to + (i * (kThreads / kTile) + thread / kTile) * 4 * kStride + thread % kTile;
      at[0] = v[i].x, at[kStride] = v[i].y, at[2 * kStride] = v[i].z, at[3 * kStride] = v[i].w;
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    linear_f32(const View x, const float* weight, int64_t outputs, const PartOut out, int64_t rows) {
  float* xs = shared_memory<float>();
  float* ws = xs + kCols * kStride;
  let_next_begin();
  wait_for_inputs();
  const int64_t n0 = int64_t{blockIdx.x} * kTile, row0 = int64_t{blockIdx.y} * kTile, cols = x.cols;
  const int n_of = static_cast<int>(threadIdx.x) % 16 * 4, m_of = static_cast<int>(threadIdx.x) / 16 * 4;
  const float* from = reinterpret_cast<const float*>(x.data);
  float total[4][4] = {};
  Staged next_x, next_w;
  next_x.load(from, x.stride, row0, rows, 0, cols);
  next_w.load(weight, cols, n0, outputs, 0, cols);
  for (int64_t col = 0; col < cols; col += kCols) {
    next_x.store(xs);
    next_w.store(ws);
    __syncthreads();
    if (col + kCols < cols) {
      next_x.load(from, x.stride, row0, rows, col + kCols, cols);
      next_w.load(weight, cols, n0, outputs, col + kCols, cols);
    }
    float sum[4][4] = {};
#pragma unroll 4
    for (int k = 0; k < kCols; ++k) {
      const float4 a = *reinterpret_cast<const float4*>(xs + k * kStride + m_of);
      const float4 b = *reinterpret_cast<const float4*>(ws + k * kStride + n_of);
      const float av[4] = {a.x, a.y, a.z, a.w}, bv[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = __fmaf_rn(av[i], bv[j], sum[i][j]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) total[i][j] += sum[i][j];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (row0 + m_of + i >= rows) break;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (n0 + n_of + j < outputs) store_part(out, row0 + m_of + i, n0 + n_of + j, total[i][j]);
  }
}

}  // namespace

bool f32_takes(const View& x, const Weight& weight, int64_t rows) {
  return rows > kTile / 2 && weight.format == Format::kF32 && weight.scale == nullptr && x.dtype == DType::kF32 &&
         weight.cols % 4 == 0 && x.stride % 4 == 0 &&
         (reinterpret_cast<uintptr_t>(x.data) | reinterpret_cast<uintptr_t>(weight.data)) % 16 == 0;
}

void run_f32(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  launch(ctx, linear_f32,
         {dim3(ceil_div(weight.rows, kTile), ceil_div(rows, kTile)), dim3(kThreads), int64_t{2} * kCols * kStride * 4},
         x, reinterpret_cast<const float*>(weight.data), weight.rows, out, rows);
}

}  // namespace ingot::cuda
