#include "base/check.h"
#include "cuda/row_registers.cuh"
#include "ops/cuda/ops.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/router_topk/route.cuh"

namespace ingot::cuda {
namespace {

// A block for each `width` columns of a row, which it reads once.
template <DType kIn, DType kOut, class Row>
__global__ void __launch_bounds__(Row::kThreads, 1024 / Row::kThreads)
    rms_norm(View x, const float* __restrict__ weight, View out, int width, float eps) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const int64_t r = blockIdx.x, begin = static_cast<int64_t>(blockIdx.y) * width;
  Row row;
  row.template load<kIn>(x.row(r) + begin * dtype_bytes(kIn), width);
  std::byte* to = out.row(r) + begin * dtype_bytes(kOut);
  float squares = 0;
  row.each(width, [&](auto& v, int) {
    for (const float one : v) squares += one * one;
  });
  const float inverse = inverse_root(block_sum(squares, room), width, eps);
  row.each(width, [&](auto& v, int i) {
    std::remove_reference_t<decltype(v)> w;
    Row::template load_group<DType::kF32>(reinterpret_cast<const std::byte*>(weight), i, w);
    for (int k = 0; k < Row::kSize; ++k) v[k] = v[k] * inverse * w[k];
    Row::template store_group<kOut>(to, i, v);
  });
}

// Rows that are too long for registers, of other types or not of whole groups. The second reading finds the row in the
// L1 cache.
__global__ void long_rms_norm(View x, const float* __restrict__ weight, View out, int width, float eps, bool wide) {
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
  const auto* weight = reinterpret_cast<const float*>(op.weight.data);
  const auto width = static_cast<int>(op.width);
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(op.x.cols / op.width));
  const auto give = [&](auto in, auto out, auto row) {
    // Heads are narrower than the narrowest row: no warps that do nothing.
    const int64_t threads = std::min<int64_t>(decltype(row)::kThreads, row_threads(width));
    launch(ctx, rms_norm<decltype(in)::value, decltype(out)::value, decltype(row)>,
           {grid, dim3(static_cast<unsigned>(threads))}, View(op.x), weight, View(op.out), width, op.eps);
  };
  const bool fours = in_fours(op.weight);
  if (fours && give_typed_row({&op.x}, op.out, width, give)) return;
  const bool wide = fours && in_fours(op.x) && in_fours(op.out) && width % 4 == 0;
  launch(ctx, long_rms_norm, {grid, dim3(static_cast<unsigned>(row_threads(width)))}, View(op.x), weight, View(op.out),
         width, op.eps, wide);
}

}  // namespace ingot::cuda
