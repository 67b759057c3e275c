#include "cuda/row_registers.cuh"
#include "ops/cuda/ops.h"
#include "ops/softmax/softmax.h"

namespace ingot::cuda {
namespace {

// A block for each row, which it reads once. The steps to this kernel, and what each gained: ladder/softmax.
template <int kFours, int kThreads>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads) softmax(View x, View out, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  RegisterRow<kFours, kThreads> row;
  row.load(x.row(blockIdx.x), x.cols, x.dtype, wide);
  float largest = -INFINITY;
  row.each(x.cols, [&](float v, int) { largest = fmaxf(largest, v); });
  largest = block_max(largest, room);
  float sum = 0;
  row.each(x.cols, [&](float& v, int) { sum += v = expf(v - largest); });
  const float inverse = 1.0f / block_sum(sum, room);
  row.each(x.cols, [&](float& v, int) { v *= inverse; });
  row.store(out.row(blockIdx.x), x.cols, out.dtype, wide);
}

// Rows that are too long for registers are read twice: the first time for the largest and the sum, which a larger value
// scales.
__global__ void long_softmax(View x, View out, bool wide) {
  __shared__ float room[32];
  let_next_begin();
  wait_for_inputs();
  const std::byte* from = x.row(blockIdx.x);
  const int width = x.cols, first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float largest = -INFINITY, sum = 0;
  for (int i = first; 4 * i < width; i += step) {
    const Four v = get_four(from, i, width, x.dtype, wide);
    float most = largest;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width) most = fmaxf(most, v.v[k]);
    if (most > largest) sum *= expf(largest - most);  // before the first value: 0 · 0
    largest = most;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (4 * i + k < width && v.v[k] != -INFINITY) sum += expf(v.v[k] - largest);
  }
  const float most = block_max(largest, room);
  // A thread whose values are all -inf adds nothing; where the whole row is, all results are NaN below.
  const float inverse = 1.0f / block_sum(largest == -INFINITY && !isnan(sum) ? 0.0f : sum * expf(largest - most), room);
  for (int i = first; 4 * i < width; i += step) {
    Four v = get_four(from, i, width, x.dtype, wide);
#pragma unroll
    for (int k = 0; k < 4; ++k) v.v[k] = expf(v.v[k] - most) * inverse;
    put_four(out.row(blockIdx.x), i, width, out.dtype, wide, v);
  }
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  const auto give = [&](auto kernel, int64_t threads) {
    const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))};
    launch(ctx, kernel, shape, View(op.x), View(op.out), in_fours(op.x) && in_fours(op.out));
  };
  if (op.x.cols > kRegisterCols) return give(long_softmax, row_threads(op.x.cols));
  INGOT_GIVE_REGISTER_ROW(softmax, op.x.cols, give);
}

}  // namespace ingot::cuda
