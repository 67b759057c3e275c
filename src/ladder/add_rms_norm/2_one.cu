// One kernel: a thread reads back what it has written itself, out of the caches; a row is not read again from memory.
#include "ladder/add_rms_norm/add_rms_norm.h"
#include "ladder/cuda_step.cuh"

namespace ingot::cuda::INGOT_STEP {
namespace {

__global__ void add_rms_norm(View a, View b, const float* weight, View sum, View out, float eps, bool wide) {
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
  const float inverse = inverse_root(block_sum(squares, room), width, eps);
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
  const int64_t rows = ctx.rows(op.out);
  if (rows == 0) return;
  const bool wide = in_fours(op.a) && in_fours(op.b) && in_fours(op.sum) && in_fours(op.out) && in_fours(op.weight);
  launch(ctx, add_rms_norm, {dim3(rows), dim3(row_threads(op.out.cols))}, View(op.a), View(op.b),
         reinterpret_cast<const float*>(op.weight.data), View(op.sum), View(op.out), op.eps, wide);
}

}  // namespace ingot::cuda::INGOT_STEP
