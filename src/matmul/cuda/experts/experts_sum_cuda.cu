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

}  // namespace

void add_expert_places(const ExpertSum& sum, int64_t rows, const DeviceCtx& ctx) {
  const bool wide = in_fours(sum.places) && in_fours(sum.out) && sum.out.cols % 4 == 0 &&
                    (sum.residual.data == nullptr || in_fours(sum.residual));
  launch(ctx, add_places, {dim3(ceil_div(sum.out.cols, 4 * kThreads), rows), dim3(kThreads)}, sum, wide);
}

}  // namespace ingot::cuda
