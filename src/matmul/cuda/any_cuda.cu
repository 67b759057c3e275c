// Every format of weights, any number of rows and columns: weights are decoded to f32 in shared memory as they are
// needed, products and sums are f32. An output is a sum of sums of a stage's columns, each in ascending order: the same
// for every number of rows. And the same decoding into bf16, for products of other kernels.
#include "base/check.h"
#include "matmul/cuda/parts.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kOutputs = 64;  // of a block

// What a kernel needs of a weight.
struct WeightView {
  const uint8_t* data = nullptr;
  int64_t rows = 0, cols = 0, row_bytes = 0;
  const float* scale = nullptr;
  int64_t scale_rows = 1, scale_cols = 1, scale_stride = 0;

  explicit WeightView(const Weight& w)
      : data(reinterpret_cast<const uint8_t*>(w.data)), rows(w.rows), cols(w.cols), row_bytes(w.row_bytes) {
    if (w.scale == nullptr) return;
    CHECK(w.scale_rows > 0 && w.scale_cols > 0, "scales of {} x {} in '{}'", w.scale_rows, w.scale_cols, w.name);
    scale = w.scale;
    scale_rows = w.scale_rows;
    scale_cols = w.scale_cols;
    scale_stride = w.scale_stride;
  }
};

// Columns of a stage: whole blocks of the format.
template <class F>
constexpr int kStageCols = F::kBlock > 64 ? static_cast<int>(F::kBlock) : 64;

// Block `col` / kBlock of a row. Whole rows have functions of their own for that.
template <class F>
__device__ void decode_one(const uint8_t* row, int64_t col, float* out) {
  if constexpr (requires { F::kWholeRows; }) {
    F::decode_block(row, col, out);
  } else {
    F::decode(row + col / F::kBlock * F::kBytes, out);
  }
}

// The weights of kOutputs rows from n0 on, columns [col, col + kStageCols), zeros beyond the matrix.
template <class F>
__device__ void decode_stage(const WeightView& w, int64_t n0, int64_t col, float* to) {
  constexpr int kBlock = static_cast<int>(F::kBlock), kCols = kStageCols<F>, kBlocks = kCols / kBlock;
  for (int i = static_cast<int>(threadIdx.x); i < kOutputs * kBlocks; i += kThreads) {
    const int64_t n = n0 + i / kBlocks, c = col + i % kBlocks * kBlock;
    float* out = to + i / kBlocks * (kCols + 1) + i % kBlocks * kBlock;
    if (n >= w.rows || c >= w.cols) {
      for (int e = 0; e < kBlock; ++e) out[e] = 0;
      continue;
    }
    decode_one<F>(w.data + n * w.row_bytes, c, out);
    if (w.scale == nullptr) continue;
    const float* scales = w.scale + n / w.scale_rows * w.scale_stride;
    for (int e = 0; e < kBlock; ++e) out[e] *= scales[(c + e) / w.scale_cols];
  }
}

// M rows of x: 8 or 32.
template <class F, int M>
__global__ void __launch_bounds__(kThreads, F::kBlock > 64 ? 1 : 2)
    linear_any(const View x, const WeightView weight, const PartOut out, int64_t rows) {
  constexpr int kCols = kStageCols<F>;
  constexpr int kEach = kOutputs / (kThreads / M);  // outputs of a thread, for one row
  float* w = shared_memory<float>();
  float* staged = w + kOutputs * (kCols + 1);
  let_next_begin();
  wait_for_inputs();
  const int64_t n0 = int64_t{blockIdx.x} * kOutputs, row0 = int64_t{blockIdx.y} * M;
  // Neighbouring threads have neighbouring outputs: rows of w lie an odd number of words apart.
  const int n_of = static_cast<int>(threadIdx.x) % (kThreads / M), m = static_cast<int>(threadIdx.x) / (kThreads / M);
  float total[kEach] = {};
  for (int64_t col = 0; col < weight.cols; col += kCols) {
    decode_stage<F>(weight, n0, col, w);
    for (int i = static_cast<int>(threadIdx.x); i < M * kCols; i += kThreads) {
      const int64_t r = row0 + i / kCols, c = col + i % kCols;
      staged[i / kCols * (kCols + 1) + i % kCols] = r < rows && c < weight.cols ? x.get(r, c) : 0.0f;
    }
    __syncthreads();
    float sum[kEach] = {};
    const float* xs = staged + m * (kCols + 1);
#pragma unroll 8
    for (int k = 0; k < kCols; ++k) {
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        sum[j] = __fmaf_rn(xs[k], w[(n_of + j * (kThreads / M)) * (kCols + 1) + k], sum[j]);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) total[j] += sum[j];
    __syncthreads();
  }
  if (row0 + m >= rows) return;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int64_t n = n0 + n_of + j * (kThreads / M);
    if (n < weight.rows) store_part(out, row0 + m, n, total[j]);
  }
}

// kOutputs rows of a stage's columns as bf16.
template <class F>
__global__ void __launch_bounds__(kThreads) unpack_any(const WeightView weight, const UnpackRows to) {
  constexpr int kCols = kStageCols<F>;
  float* w = shared_memory<float>();
  let_next_begin();
  wait_for_inputs();
  const int64_t n0 = to.first + int64_t{blockIdx.x} * kOutputs, col = int64_t{blockIdx.y} * kCols;
  decode_stage<F>(weight, n0, col, w);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kOutputs * kCols / 2; i += kThreads) {
    const int r = i / (kCols / 2), c = i % (kCols / 2) * 2;
    if (n0 + r >= to.end || col + c >= to.stride) continue;
    const float* from = w + r * (kCols + 1) + c;
    // Where a block ends beyond the row there was nothing to decode.
    const uint32_t pair = pack_bf16(col + c < to.cols ? from[0] : 0.0f, col + c + 1 < to.cols ? from[1] : 0.0f);
    *reinterpret_cast<uint32_t*>(to.to[0] + ((n0 + r - to.first) * to.stride + col + c) * 2) = pair;
  }
}

template <class F, int M>
void launch_any(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  constexpr int64_t kShared = int64_t{kOutputs + M} * (kStageCols<F> + 1) * 4;
  launch(ctx, linear_any<F, M>, {dim3(ceil_div(weight.rows, kOutputs), ceil_div(rows, M)), dim3(kThreads), kShared}, x,
         WeightView(weight), out, rows);
}

}  // namespace

void unpack_published(const Weight& weight, const UnpackRows& rows, const DeviceCtx& ctx) {
  visit_format(weight.format, [&](auto format) {
    using F = decltype(format);
    constexpr int64_t kShared = int64_t{kOutputs} * (kStageCols<F> + 1) * 4;
    launch(ctx, unpack_any<F>,
           {dim3(ceil_div(rows.end - rows.first, kOutputs), ceil_div(rows.stride, kStageCols<F>)), dim3(kThreads),
            kShared},
           WeightView(weight), rows);
  });
}

void run_any(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx) {
  visit_format(weight.format, [&](auto format) {
    using F = decltype(format);
    if (rows <= 8) {
      launch_any<F, 8>(x, weight, out, rows, ctx);
    } else {
      launch_any<F, 32>(x, weight, out, rows, ctx);
    }
  });
}

}  // namespace ingot::cuda
