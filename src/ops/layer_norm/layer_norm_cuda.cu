#include "base/check.h"
#include "cuda/row_registers.cuh"
#include "ops/cuda/ops.h"
#include "ops/layer_norm/layer_norm.h"

namespace ingot::cuda {
namespace {

// A block for each row, which it reads once; the variance is of the distances from the mean, so that a large mean costs
// no digits. The steps to this kernel, and what each gained: ladder/layer_norm.
template <int kFours, int kThreads>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    layer_norm(View x, const float* __restrict__ weight, const float* __restrict__ bias, View out, float eps,
               bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  RegisterRow<kFours, kThreads> row;
  row.load(x.row(blockIdx.x), x.cols, x.dtype, wide);
  float sum = 0;
  row.each(x.cols, [&](float v, int) { sum += v; });
  const float mean = block_sum(sum, room) / static_cast<float>(x.cols);
  float squares = 0;
  row.each(x.cols, [&](float& v, int) {
    v -= mean;
    squares += v * v;
  });
  const float inverse = inverse_root(block_sum(squares, room), x.cols, eps);
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    const Four w = get_four(reinterpret_cast<const std::byte*>(weight), row.four(j), x.cols, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) row.v[j].v[k] = row.v[j].v[k] * inverse * w.v[k];
    if (bias == nullptr) continue;
    const Four b = get_four(reinterpret_cast<const std::byte*>(bias), row.four(j), x.cols, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) row.v[j].v[k] += b.v[k];
  }
  row.store(out.row(blockIdx.x), x.cols, out.dtype, wide);
}

// Rows that are too long for registers are read three times.
__global__ void long_layer_norm(View x, const float* __restrict__ weight, const float* __restrict__ bias, View out,
                                float eps, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const int width = x.cols, first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float sum = 0;
  for (int i = first; 4 * i < width; i += step) {
    const Four v = get_four(x.row(r), i, width, x.dtype, wide);
    sum += (v.v[0] + v.v[1]) + (v.v[2] + v.v[3]);
  }
  const float mean = block_sum(sum, room) / static_cast<float>(width);
  float squares = 0;
  for (int i = first; 4 * i < width; i += step) {
    const Four v = get_four(x.row(r), i, width, x.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width) squares += (v.v[k] - mean) * (v.v[k] - mean);
  }
  squares = block_sum(squares, room);
  const float inverse = inverse_root(squares, width, eps);
  for (int i = first; 4 * i < width; i += step) {
    Four v = get_four(x.row(r), i, width, x.dtype, wide);
    const Four w = get_four(reinterpret_cast<const std::byte*>(weight), i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v.v[k] = (v.v[k] - mean) * inverse * w.v[k];
    if (bias != nullptr) {
      const Four b = get_four(reinterpret_cast<const std::byte*>(bias), i, width, DType::kF32, wide);
#pragma unroll
      for (int k = 0; k < 4; ++k) v.v[k] += b.v[k];
    }
    put_four(out.row(r), i, width, out.dtype, wide, v);
  }
}

}  // namespace

void run(const LayerNorm& op, Ctx& ctx) {
  CHECK(op.weight.format == Format::kF32 && (!op.bias || op.bias.format == Format::kF32),
        "the weight and the bias of a norm are f32");
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  const bool wide = in_fours(op.x) && in_fours(op.out) && in_fours(op.weight) && in_fours(op.bias);
  const auto give = [&](auto kernel, int64_t threads) {
    const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))};
    launch(ctx, kernel, shape, View(op.x), reinterpret_cast<const float*>(op.weight.data),
           reinterpret_cast<const float*>(op.bias.data), View(op.out), op.eps, wide);
  };
  if (op.x.cols > kRegisterCols) return give(long_layer_norm, row_threads(op.x.cols));
  INGOT_GIVE_REGISTER_ROW(layer_norm, op.x.cols, give);
}

}  // namespace ingot::cuda
