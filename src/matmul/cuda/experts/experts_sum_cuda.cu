// The sum over a row's places, with the residual and what a norm after it needs.
#include <algorithm>

#include "cuda/elements.cuh"
#include "matmul/cuda/experts/experts.cuh"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAtOnce = 8;  // places that are asked for together

// Four columns of a row for each thread. A row's places are added in their order.
__global__ void __launch_bounds__(kThreads) add_places(const __grid_constant__ ExpertSum args, bool wide) {
  let_next_begin();
  wait_for_inputs();
  const int64_t row = blockIdx.y;
  if (row >= *args.true_rows) return;
  const int cols = args.out.cols, i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const bool is_linked = args.to.weight != nullptr;
  const bool has = 4 * i < cols;
  Four sum = {};
  for (int first = 0; has && first < args.used; first += kAtOnce) {
    Four x[kAtOnce];
    float w[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const bool is_there = first + j < args.used;
      const int64_t place = row * args.used + first + (is_there ? j : 0);
      x[j] = get_four(args.places.row(place), i, cols, args.places.dtype, wide);
      w[j] = args.weights.data != nullptr && is_there ? args.weights.get(row, first + j) : 1.0f;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j >= args.used) break;
#pragma unroll
      for (int k = 0; k < 4; ++k) sum.v[k] = __fmaf_rn(w[j], x[j].v[k], sum.v[k]);
    }
  }
  if (args.residual.data != nullptr && has) {
    const Four before = get_four(args.residual.row(row), i, cols, args.residual.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) sum.v[k] += before.v[k];
  }
  if (has) put_four(args.out.row(row), i, cols, args.out.dtype, wide, sum);
  if (!is_linked) return;
  float squares = 0;
  if (has) {
    Four normed = load_four(reinterpret_cast<const std::byte*>(args.to.weight), i, DType::kF32);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      normed.v[k] *= sum.v[k];
      squares += sum.v[k] * sum.v[k];
    }
    store_four(args.to.x.row(row), i, DType::kBF16, normed);
  }
  squares += __shfl_xor_sync(0xffffffffu, squares, 1);
  squares += __shfl_xor_sync(0xffffffffu, squares, 2);
  if (has && i % 4 == 0) args.to.squares[row * args.to.parts + i / 4] = squares;
}

// Many rows of bf16 places, eight columns for each thread: all that it reads is asked for at once, where the kernel
// above asks for one place after another as each may have another type. 16,512 rows of 8 places of 2,048 columns took
// that 390 us, at 1.7 TB/s.
__global__ void __launch_bounds__(kThreads) add_rounded(const __grid_constant__ ExpertSum args) {
  let_next_begin();
  wait_for_inputs();
  const int64_t row = blockIdx.y;
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= *args.true_rows || 8 * i >= args.out.cols) return;
  float sum[8] = {};
  for (int first = 0; first < args.used; first += kAtOnce) {
    uint4 x[kAtOnce];
    float w[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t place = row * args.used + min(first + j, args.used - 1);
      x[j] = load_stream(args.places.data + place * args.places.stride * 2 + i * 16);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      w[j] = args.weights.data != nullptr && first + j < args.used ? args.weights.get(row, first + j) : 1.0f;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j >= args.used) break;
      const uint32_t words[4] = {x[j].x, x[j].y, x[j].z, x[j].w};
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const uint32_t bits = k % 2 == 0 ? words[k / 2] << 16 : words[k / 2] & 0xffff0000u;
        sum[k] = __fmaf_rn(w[j], __uint_as_float(bits), sum[k]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    Four half;
#pragma unroll
    for (int k = 0; k < 4; ++k) half.v[k] = sum[4 * h + k];
    store_four(args.out.row(row), 2 * i + h, args.out.dtype, half);
  }
}

}  // namespace

void add_expert_places(const ExpertSum& sum, int64_t rows, const DeviceCtx& ctx) {
  const bool wide = in_fours(sum.places) && in_fours(sum.out) && sum.out.cols % 4 == 0 &&
                    (sum.residual.data == nullptr || in_fours(sum.residual));
  // Whole pieces of 16 bytes.
  const bool rounded = wide && sum.places.dtype == DType::kBF16 && sum.residual.data == nullptr &&
                       sum.to.weight == nullptr && sum.out.cols % 8 == 0 && sum.places.stride % 8 == 0 &&
                       reinterpret_cast<uintptr_t>(sum.places.data) % 16 == 0;
  if (rounded) return launch(ctx, add_rounded, {dim3(ceil_div(sum.out.cols, 8 * kThreads), rows), dim3(kThreads)}, sum);
  launch(ctx, add_places, {dim3(ceil_div(sum.out.cols, 4 * kThreads), rows), dim3(kThreads)}, sum, wide);
}

}  // namespace ingot::cuda
