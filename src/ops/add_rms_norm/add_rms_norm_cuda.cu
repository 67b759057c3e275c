#include "base/check.h"
#include "cuda/elements.cuh"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/cuda/ops.h"

namespace ingot::cuda {
namespace {

// A block for each row. Each thread reads back only what it has written itself.
__global__ void add_rms_norm(View a, View b, const float* __restrict__ weight, View sum, View out, float eps,
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
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(row_threads(op.out.cols)))};
  launch(ctx, add_rms_norm, shape, View(op.a), View(op.b), reinterpret_cast<const float*>(op.weight.data), View(op.sum),
         View(op.out), op.eps, wide);
}

}  // namespace ingot::cuda
