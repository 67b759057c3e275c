#include "base/check.h"
#include "cuda/row_registers.cuh"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

// A block for each row: the sum stays in registers, as a tensor of its type gives it back. The steps to this kernel:
// ladder/add_rms_norm.
template <DType kIn, DType kOut, class Row>
__global__ void __launch_bounds__(Row::kThreads)
    add_rms_norm(View a, View b, const float* __restrict__ weight, View sum, View out, float eps) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  Row row, other;
  row.template load<kIn>(a.row(r), out.cols);
  other.template load<kIn>(b.row(r), out.cols);
  float squares = 0;
#pragma unroll
  for (int j = 0; j < Row::kCount; ++j) {
#pragma unroll
    for (int k = 0; k < Row::kSize; ++k) {
      float& one = row.v[j][k];
      one += other.v[j][k];
      squares += one * one;
    }
    if (Row::within(j, out.cols)) Row::template store_group<kIn>(sum.row(r), Row::group(j), row.v[j]);
#pragma unroll
    for (int k = 0; k < Row::kSize; ++k)
      if (kIn == DType::kBF16) row.v[j][k] = bf16_value(bf16_bits(row.v[j][k]));
  }
  const float inverse = inverse_root(block_sum(squares, room), out.cols, eps);
  row.each(out.cols, [&](auto& v, int i) {
    std::remove_reference_t<decltype(v)> w;
    Row::template load_group<DType::kF32>(reinterpret_cast<const std::byte*>(weight), i, w);
    for (int k = 0; k < Row::kSize; ++k) v[k] = v[k] * inverse * w[k];
    Row::template store_group<kOut>(out.row(r), i, v);
  });
}

// Rows that are too long for registers, of other types or not of whole groups: each thread reads back only what it has
// written itself.
__global__ void long_add_rms_norm(View a, View b, const float* __restrict__ weight, View sum, View out, float eps,
                                  bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const int width = out.cols;
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); 4 * i < width; i += static_cast<int>(blockDim.x)) {
    Four v = get_four(a.row(r), i, width, a.dtype, wide);
    const Four w = get_four(b.row(r), i, width, b.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v.v[k] += w.v[k];
      squares += v.v[k] * v.v[k];
    }
    put_four(sum.row(r), i, width, sum.dtype, wide, v);
  }
  squares = block_sum(squares, room);
  const float inverse = inverse_root(squares, width, eps);
  for (int i = static_cast<int>(threadIdx.x); 4 * i < width; i += static_cast<int>(blockDim.x)) {
    Four v = get_four(sum.row(r), i, width, sum.dtype, wide);
    const Four w = get_four(reinterpret_cast<const std::byte*>(weight), i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v.v[k] = v.v[k] * inverse * w.v[k];
    put_four(out.row(r), i, width, out.dtype, wide, v);
  }
}

}  // namespace

void run(const AddRmsNorm& op, Ctx& ctx) {
  CHECK(op.weight.format == Format::kF32, "a norm's weight is f32, not {}", format_name(op.weight.format));
  const int64_t rows = ctx.rows(op.out);
  if (rows == 0) return;
  const auto* weight = reinterpret_cast<const float*>(op.weight.data);
  const auto give = [&](auto in, auto out, auto row) {
    const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(decltype(row)::kThreads)};
    launch(ctx, add_rms_norm<decltype(in)::value, decltype(out)::value, decltype(row)>, shape, View(op.a), View(op.b),
           weight, View(op.sum), View(op.out), op.eps);
  };
  const bool fours = in_fours(op.weight);
  if (fours && give_typed_row({&op.a, &op.b, &op.sum}, op.out, op.out.cols, give)) return;
  const bool wide = fours && in_fours(op.a) && in_fours(op.b) && in_fours(op.sum) && in_fours(op.out);
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(row_threads(op.out.cols)))};
  launch(ctx, long_add_rms_norm, shape, View(op.a), View(op.b), weight, View(op.sum), View(op.out), op.eps, wide);
}

}  // namespace ingot::cuda
