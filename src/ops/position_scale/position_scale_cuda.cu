#include "ops/cuda/ctx.h"
#include "ops/position_scale/position_scale.h"

namespace ingot::cuda {
namespace {

constexpr int kThreads = 256;

// A block for each row.
__global__ void position_scale(View x, int period, int offset, float beta, const int32_t* position,
                               const int32_t* counts) {
  let_next_begin();
  wait_for_inputs();
  const int64_t t = blockIdx.x;
  if (t >= counts[0]) return;
  const float factor = 1 + beta * log1pf(static_cast<float>((position[t] + offset) / period));
  for (int c = static_cast<int>(threadIdx.x); c < x.cols; c += kThreads) x.set(t, c, x.get(t, c) * factor);
}

}  // namespace

void run(const PositionScale& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.x);
  if (rows == 0) return;
  launch(ctx, position_scale, {dim3(static_cast<unsigned>(rows)), dim3(kThreads)}, View(op.x), op.period, op.offset,
         op.beta, ctx.batch.position, ctx.batch.counts);
}

}  // namespace ingot::cuda
