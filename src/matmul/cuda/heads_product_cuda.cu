// A block takes 64 outputs of one head for 8 or 64 rows, a stage of K after the other: few rows by products in f32, an
// output being a sum of sums of stages whatever the rows; many by matrix instructions.
#include "matmul/cuda/decode_stage.cuh"
#include "matmul/cuda/heads.cuh"

namespace ingot::cuda {
namespace {

constexpr int kFewRows = 8, kManyRows = 64;

struct HeadsArgs {
  View x, out;
  int inputs, outputs, tail;  // K, N and what is copied
  int64_t rows;

  __device__ int64_t x_col(int head) const { return static_cast<int64_t>(head) * (inputs + tail); }
  __device__ int64_t out_col(int head) const { return static_cast<int64_t>(head) * (outputs + tail); }
};

// The rows of one head.
__device__ inline WeightView of_head(WeightView w, int head, int outputs) {
  const int64_t first = static_cast<int64_t>(head) * outputs;
  w.data += first * w.row_bytes;
  w.rows = outputs;
  if (w.scale != nullptr) w.scale += first / w.scale_rows * w.scale_stride;
  return w;
}

template <int M, int kCols>
__device__ void stage_rows(const HeadsArgs& a, int head, int64_t row0, int64_t col, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < M * kCols; i += kStageThreads) {
    const int64_t r = row0 + i / kCols, c = col + i % kCols;
    to[i / kCols * (kCols + 1) + i % kCols] = r < a.rows && c < a.inputs ? a.x.get(r, a.x_col(head) + c) : 0.0f;
  }
}

template <int M>
__device__ void copy_tails(const HeadsArgs& a, int head, int64_t row0) {
  if (blockIdx.x != 0) return;
  for (int i = static_cast<int>(threadIdx.x); i < M * a.tail; i += kStageThreads) {
    const int64_t r = row0 + i / a.tail;
    if (r < a.rows)
      a.out.set(r, a.out_col(head) + a.outputs + i % a.tail, a.x.get(r, a.x_col(head) + a.inputs + i % a.tail));
  }
}

template <class F>
__global__ void __launch_bounds__(kStageThreads, F::kBlock > 64 ? 1 : 2)
    heads_few(const HeadsArgs a, const WeightView all) {
  constexpr int M = kFewRows, kCols = kStageCols<F>, kApart = kStageThreads / M, kEach = kStageOutputs / kApart;
  float* w = shared_memory<float>();
  float* staged = w + kStageOutputs * (kCols + 1);
  let_next_begin();
  wait_for_inputs();
  const int head = static_cast<int>(blockIdx.z);
  const WeightView weight = of_head(all, head, a.outputs);
  const int64_t n0 = int64_t{blockIdx.x} * kStageOutputs, row0 = int64_t{blockIdx.y} * M;
  const int n_of = static_cast<int>(threadIdx.x) % kApart, m = static_cast<int>(threadIdx.x) / kApart;
  float total[kEach] = {};
  for (int64_t col = 0; col < weight.cols; col += kCols) {
    decode_stage<F>(weight, n0, col, w);
    stage_rows<M, kCols>(a, head, row0, col, staged);
    __syncthreads();
    float sum[kEach] = {};
    const float* xs = staged + m * (kCols + 1);
#pragma unroll 8
    for (int k = 0; k < kCols; ++k) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) sum[j] = __fmaf_rn(xs[k], w[(n_of + j * kApart) * (kCols + 1) + k], sum[j]);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) total[j] += sum[j];
    __syncthreads();
  }
  copy_tails<M>(a, head, row0);
  if (row0 + m >= a.rows) return;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int64_t n = n0 + n_of + j * kApart;
    if (n < a.outputs) a.out.set(row0 + m, a.out_col(head) + n, total[j]);
  }
}

// Eight warps: four of 16 rows each, two of 32 outputs.
template <class F>
__global__ void __launch_bounds__(kStageThreads) heads_many(const HeadsArgs a, const WeightView all) {
  constexpr int M = kManyRows, kCols = kStageCols<F>, kStride = kCols + 1;
  float* w = shared_memory<float>();
  float* staged = w + kStageOutputs * kStride;
  let_next_begin();
  wait_for_inputs();
  const int head = static_cast<int>(blockIdx.z);
  const WeightView weight = of_head(all, head, a.outputs);
  const int64_t n0 = int64_t{blockIdx.x} * kStageOutputs, row0 = int64_t{blockIdx.y} * M;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, t = lane % 4, m0 = warp % 4 * 16, first = warp / 4 * 32;
  float d[4][4] = {};
  for (int64_t col = 0; col < weight.cols; col += kCols) {
    decode_stage<F>(weight, n0, col, w);
    stage_rows<M, kCols>(a, head, row0, col, staged);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kCols; k += 16) {
      const auto pair = [&](const float* row, int at) {
        return pack_bf16(row[k + at + 2 * t], row[k + at + 2 * t + 1]);
      };
      const float* low = staged + (m0 + g) * kStride;
      const float* high = low + 8 * kStride;
      const uint32_t x[4] = {pair(low, 0), pair(high, 0), pair(low, 8), pair(high, 8)};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float* row = w + (first + 8 * n + g) * kStride;
        const uint32_t b[2] = {pair(row, 0), pair(row, 8)};
        multiply_bf16(d[n], x, b);
      }
    }
    __syncthreads();
  }
  copy_tails<M>(a, head, row0);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t row = row0 + m0 + g + i / 2 * 8, out = n0 + first + 8 * n + 2 * t + i % 2;
      if (row < a.rows && out < a.outputs) a.out.set(row, a.out_col(head) + out, d[n][i]);
    }
  }
}

}  // namespace

void multiply_heads(const HeadsProduct& product, int64_t rows, const DeviceCtx& ctx) {
  if (rows == 0) return;
  const Weight& weight = *product.weight;
  HeadsArgs args;
  args.x = View(product.x);
  args.out = View(product.out);
  args.inputs = static_cast<int>(weight.cols);
  args.outputs = static_cast<int>(weight.rows / product.heads);
  args.tail = product.tail;
  args.rows = rows;
  const bool many = rows > kFewRows && weight.format != Format::kF32 && !ctx.batch_invariant;
  const int64_t tile = many ? kManyRows : kFewRows;
  const dim3 grid(static_cast<unsigned>(ceil_div(args.outputs, kStageOutputs)),
                  static_cast<unsigned>(ceil_div(rows, tile)), static_cast<unsigned>(product.heads));
  visit_format(weight.format, [&](auto format) {
    using F = decltype(format);
    const int64_t shared = (kStageOutputs + tile) * (kStageCols<F> + 1) * 4;
    launch(ctx, many ? heads_many<F> : heads_few<F>, {grid, dim3(kStageThreads), shared}, args, WeightView(weight));
  });
}

}  // namespace ingot::cuda
