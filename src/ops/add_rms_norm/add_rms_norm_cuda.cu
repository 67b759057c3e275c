#include "base/check.h"
#include "cuda/elements.cuh"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

// A value as a tensor of this type gives it back.
__device__ float as_stored(float x, DType dtype) {
  if (dtype == DType::kF32) return x;
  return dtype == DType::kBF16 ? bf16_value(bf16_bits(x)) : f16_value(f16_bits(x));
}

// A block for each row, kFours fours a thread: the sum stays in registers. The steps to this kernel:
// ladder/add_rms_norm.
template <int kFours>
__global__ void __launch_bounds__(1024)
    add_rms_norm(View a, View b, const float* __restrict__ weight, View sum, View out, float eps, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x;
  const int width = out.cols, first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  Four v[kFours], w[kFours];
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    v[j] = get_four(a.row(r), first + j * step, width, a.dtype, wide);
    w[j] = get_four(b.row(r), first + j * step, width, b.dtype, wide);
  }
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[j].v[k] += w[j].v[k];
      squares += v[j].v[k] * v[j].v[k];
    }
    put_four(sum.row(r), first + j * step, width, sum.dtype, wide, v[j]);
  }
  squares = block_sum(squares, room);
  const float inverse = inverse_root(squares, width, eps);
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    w[j] = get_four(reinterpret_cast<const std::byte*>(weight), first + j * step, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v[j].v[k] = as_stored(v[j].v[k], sum.dtype) * inverse * w[j].v[k];
    put_four(out.row(r), first + j * step, width, out.dtype, wide, v[j]);
  }
}

// Rows that are too long for registers: each thread reads back only what it has written itself.
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
  const bool wide = in_fours(op.a) && in_fours(op.b) && in_fours(op.sum) && in_fours(op.out) && in_fours(op.weight);
  const int64_t threads = row_threads(op.out.cols), fours = ceil_div(ceil_div(op.out.cols, 4), threads);
  const auto give = [&](auto kernel) {
    const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))};
    launch(ctx, kernel, shape, View(op.a), View(op.b), reinterpret_cast<const float*>(op.weight.data), View(op.sum),
           View(op.out), op.eps, wide);
  };
  if (fours == 1) return give(add_rms_norm<1>);
  if (fours == 2) return give(add_rms_norm<2>);
  give(long_add_rms_norm);
}

}  // namespace ingot::cuda
