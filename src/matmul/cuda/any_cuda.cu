// Every format of weights, any number of rows and columns: weights are decoded to f32 in shared memory as they are
// needed, products and sums are f32. An output is a sum of sums of kSumCols columns, each in ascending order: the same
// for every number of rows. And the same decoding into bf16, for products of other kernels.
#include "matmul/cuda/decode_stage.cuh"
#include "matmul/cuda/parts.cuh"
#include "matmul/cuda/sum_order.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = kStageThreads, kOutputs = kStageOutputs;

// The rows of group g.
__device__ inline WeightView of_group(WeightView w, int64_t g, int64_t count) {
  w.rows /= count;
  w.data += g * w.rows * w.row_bytes;
  if (w.scale != nullptr) w.scale += g * w.rows / w.scale_rows * w.scale_stride;
  return w;
}

// M rows of x: 8 or 32.
template <class F, int M>
__global__ void __launch_bounds__(kThreads, F::kBlock > 64 ? 1 : 2)
    linear_any(const View x, const WeightView all, const PartOut out, int64_t rows, const AnyGroups groups) {
  constexpr int kCols = kStageCols<F>;
  constexpr int kEach = kOutputs / (kThreads / M);  // outputs of a thread, for one row
  float* w = shared_memory<float>();
  float* staged = w + kOutputs * (kCols + 1);
  let_next_begin();
  wait_for_inputs();
  const int64_t group = blockIdx.z, x_col = group * groups.x_apart, out_col = group * groups.out_apart;
  const WeightView weight = of_group(all, group, groups.count);
  const int64_t n0 = int64_t{blockIdx.x} * kOutputs, row0 = int64_t{blockIdx.y} * M;
  // Neighbouring threads have neighbouring outputs: rows of w lie an odd number of words apart.
  const int n_of = static_cast<int>(threadIdx.x) % (kThreads / M), m = static_cast<int>(threadIdx.x) / (kThreads / M);
  float total[kEach] = {}, sum[kEach] = {};
  for (int64_t col = 0; col < weight.cols; col += kCols) {
    decode_stage<F>(weight, n0, col, w);
    for (int i = static_cast<int>(threadIdx.x); i < M * kCols; i += kThreads) {
      const int64_t r = row0 + i / kCols, c = col + i % kCols;
      staged[i / kCols * (kCols + 1) + i % kCols] = r < rows && c < weight.cols ? x.get(r, x_col + c) : 0.0f;
    }
    __syncthreads();
    const float* xs = staged + m * (kCols + 1);
#pragma unroll 8
    for (int k = 0; k < kCols; ++k) {
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        sum[j] = __fmaf_rn(xs[k], w[(n_of + j * (kThreads / M)) * (kCols + 1) + k], sum[j]);
    }
    const bool is_whole = (col + kCols) % kSumCols == 0 || col + kCols >= weight.cols;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (is_whole) total[j] += sum[j], sum[j] = 0;
    }
    __syncthreads();
  }
  if (row0 + m >= rows) return;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int64_t n = n0 + n_of + j * (kThreads / M);
    if (n < weight.rows) store_part(out, row0 + m, out_col + n, total[j]);
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
void launch_any(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx,
                const AnyGroups& groups) {
  constexpr int64_t kShared = int64_t{kOutputs + M} * (kStageCols<F> + 1) * 4;
  const dim3 grid(ceil_div(weight.rows / groups.count, kOutputs), ceil_div(rows, M),
                  static_cast<unsigned>(groups.count));
  launch(ctx, linear_any<F, M>, {grid, dim3(kThreads), kShared}, x, WeightView(weight), out, rows, groups);
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

void run_any(const View& x, const Weight& weight, const PartOut& out, int64_t rows, const DeviceCtx& ctx,
             const AnyGroups& groups) {
  visit_format(weight.format, [&](auto format) {
    using F = decltype(format);
    if (rows <= 8) {
      launch_any<F, 8>(x, weight, out, rows, ctx, groups);
    } else {
      launch_any<F, 32>(x, weight, out, rows, ctx, groups);
    }
  });
}

}  // namespace ingot::cuda
