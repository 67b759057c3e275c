#include "matmul/cuda/heads.cuh"
#include "ops/cuda/ops.h"
#include "ops/head_linear/head_linear.h"

namespace ingot::cuda {

void run(const HeadLinear& op, Ctx& ctx) {
  const HeadsProduct product{.x = Matrix(op.x),
                             .weight = &op.weight,
                             .out = Matrix(op.out),
                             .heads = op.heads,
                             .tail = static_cast<int>(op.tail)};
  multiply_heads(product, ctx.rows(op.x), ctx);
}

}  // namespace ingot::cuda
