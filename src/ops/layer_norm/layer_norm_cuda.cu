#include "base/check.h"
#include "cuda/row_registers.cuh"
#include "ops/cuda/ops.h"
#include "ops/layer_norm/layer_norm.h"

namespace ingot::cuda {
namespace {

// A block for each row, which it reads once; the variance is of the distances from the mean, so that a large mean costs
// no digits. The steps to this kernel, and what each gained: ladder/layer_norm.
template <DType kIn, DType kOut, class Row>
__global__ void __launch_bounds__(Row::kThreads, 1024 / Row::kThreads)
    layer_norm(View x, const float* __restrict__ weight, const float* __restrict__ bias, View out, float eps) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  Row row;
  row.template load<kIn>(x.row(blockIdx.x), x.cols);
  float sum = 0;
  row.each(x.cols, [&](auto& v, int) {
    for (const float one : v) sum += one;
  });
  const float mean = block_sum(sum, room) / static_cast<float>(x.cols);
  float squares = 0;
  row.each(x.cols, [&](auto& v, int) {
    for (float& one : v) {
      one -= mean;
      squares += one * one;
    }
  });
  const float inverse = inverse_root(block_sum(squares, room), x.cols, eps);
  row.each(x.cols, [&](auto& v, int i) {
    std::remove_reference_t<decltype(v)> w;
    Row::template load_group<DType::kF32>(reinterpret_cast<const std::byte*>(weight), i, w);
    for (int k = 0; k < Row::kSize; ++k) v[k] = v[k] * inverse * w[k];
    if (bias != nullptr) {
      Row::template load_group<DType::kF32>(reinterpret_cast<const std::byte*>(bias), i, w);
      for (int k = 0; k < Row::kSize; ++k) v[k] += w[k];
    }
    Row::template store_group<kOut>(out.row(blockIdx.x), i, v);
  });
}

// Rows that are too long for registers, of other types or not of whole groups, are read three times.
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
  const auto* weight = reinterpret_cast<const float*>(op.weight.data);
  const auto* bias = reinterpret_cast<const float*>(op.bias.data);
  const auto give = [&](auto in, auto out, auto row) {
    const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(decltype(row)::kThreads)};
    launch(ctx, layer_norm<decltype(in)::value, decltype(out)::value, decltype(row)>, shape, View(op.x), weight, bias,
           View(op.out), op.eps);
  };
  const bool fours = in_fours(op.weight) && in_fours(op.bias);
  if (fours && give_typed_row({&op.x}, op.out, op.x.cols, give)) return;
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(row_threads(op.x.cols)))};
  launch(ctx, long_layer_norm, shape, View(op.x), weight, bias, View(op.out), op.eps,
         fours && in_fours(op.x) && in_fours(op.out));
}

}  // namespace ingot::cuda
