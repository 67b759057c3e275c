#include "base/check.h"
#include "cuda/elements.cuh"
#include "ops/cuda/ops.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/router_topk/route.cuh"

namespace ingot::cuda {
namespace {

// A block for each `width` columns of a row. The second reading finds the row in the L1 cache.
__global__ void rms_norm(View x, const float* __restrict__ weight, View out, int width, float eps, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x, begin = static_cast<int64_t>(blockIdx.y) * width;
  const std::byte* from = x.row(r) + begin * dtype_bytes(x.dtype);
  std::byte* to = out.row(r) + begin * dtype_bytes(out.dtype);
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); 4 * i < width; i += static_cast<int>(blockDim.x)) {
    const Four v = get_four(from, i, width, x.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) squares += v.v[k] * v.v[k];
  }
  squares = block_sum(squares, room);
  const float inverse = inverse_root(squares, width, eps);
  for (int i = static_cast<int>(threadIdx.x); 4 * i < width; i += static_cast<int>(blockDim.x)) {
    Four v = get_four(from, i, width, x.dtype, wide);
    const Four w = get_four(reinterpret_cast<const std::byte*>(weight), i, width, DType::kF32, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v.v[k] = v.v[k] * inverse * w.v[k];
    put_four(to, i, width, out.dtype, wide, v);
  }
}

}  // namespace

void run(const RmsNorm& op, Ctx& ctx) {
  CHECK(op.weight.format == Format::kF32, "a norm's weight is f32, not {}", format_name(op.weight.format));
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0 || takes_route(op.route, rows)) return;
  const bool wide = in_fours(op.x) && in_fours(op.out) && op.width % 4 == 0 && in_fours(op.weight);
  const Launch shape{dim3(static_cast<unsigned>(rows), static_cast<unsigned>(op.x.cols / op.width)),
                     dim3(static_cast<unsigned>(row_threads(op.width)))};
  launch(ctx, rms_norm, shape, View(op.x), reinterpret_cast<const float*>(op.weight.data), View(op.out),
         static_cast<int>(op.width), op.eps, wide);
}

}  // namespace ingot::cuda
