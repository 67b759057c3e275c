#include "matmul/cuda/heads.cuh"
#include "ops/cuda/ops.h"
#include "ops/head_linear/head_linear.h"

namespace ingot::cuda {
namespace {

HeadsProduct product_of(const HeadLinear& op) {
  return {.x = Matrix(op.x),
          .weight = &op.weight,
          .packed = op.streamed.get(),
          .out = Matrix(op.out),
          .heads = op.heads,
          .tail = static_cast<int>(op.tail)};
}

}  // namespace

void prepare(HeadLinear& op, Prepare& p) {
  DeviceCtx device;
  device.stream = p.stream;
  device.arch = p.arch;
  device.multiprocessors = p.multiprocessors;
  device.batch_invariant = p.batch_invariant;
  op.streamed = pack_heads(product_of(op), device, p.allocate);
  if (op.streamed == nullptr) return;
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  p.need_scratch(heads_scratch(product_of(op), rows));
}

void run(const HeadLinear& op, Ctx& ctx) { multiply_heads(product_of(op), ctx.rows(op.x), ctx); }

}  // namespace ingot::cuda
