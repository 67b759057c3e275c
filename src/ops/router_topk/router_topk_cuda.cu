#include "base/check.h"
#include "ops/cuda/ops.h"
#include "ops/router_topk/route.cuh"
#include "ops/router_topk/router_topk.h"

namespace ingot::cuda {
namespace {

// A block for each row.
__global__ void router(View x, const float* bias, RouterOut to, RouterSpec spec) {
  let_next_begin();
  wait_for_inputs();
  float* logits = shared_memory<float>();
  for (int e = lane_of_warp(); e < x.cols; e += kLanes) logits[e] = x.get(blockIdx.x, e);
  __syncwarp();
  choose_experts(x.cols, blockIdx.x, bias, to, spec, logits);
}

}  // namespace

void run(const RouterTopk& op, Ctx& ctx) {
  const int64_t n = op.logits.cols, k = op.experts.cols, rows = ctx.rows(op.logits);
  CHECK(n <= kMostExperts && k <= n, "{} of {} experts", k, n);
  CHECK(op.logits.dtype == DType::kF32, "logits that are not f32");
  if (rows == 0 || leaves_route(op.route, rows)) return;
  const RouterOut to{op.experts.row<int32_t>(0), op.weights.f32(0), op.experts.stride, op.weights.stride,
                     static_cast<int>(k)};
  const auto* bias = reinterpret_cast<const float*>(op.bias.data);
  const int32_t* true_rows = ctx.batch.counts + (op.logits.rows.kind == RowKind::kLogits ? 2 : 0);
  if (takes_route(op.route, rows))
    return run_route(*op.route, View(op.logits), bias, to, op.spec, rows, true_rows, ctx);
  const Launch shape{dim3(static_cast<unsigned>(rows)), dim3(kLanes), n * kRouterBytes};
  launch(ctx, router, shape, View(op.logits), bias, to, op.spec);
}

}  // namespace ingot::cuda
