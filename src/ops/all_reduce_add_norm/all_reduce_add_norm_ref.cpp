#include <cmath>

#include "ops/all_reduce/all_reduce.h"
#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"

namespace ingot::ref {

void run(const AllReduceAddNorm& op, Ctx& ctx) {
  run(AllReduce{.x = op.x, .out = op.x, .comm = op.comm}, ctx);
  const int64_t cols = op.out.cols;
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  for (int64_t t = 0; t < ctx.rows(op.out); ++t) {
    double squares = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const float sum = op.x.f32(t)[c] + op.residual.f32(t)[c];
      op.sum.f32(t)[c] = sum;
      squares += static_cast<double>(sum) * sum;
    }
    const double root = std::sqrt(squares / static_cast<double>(cols) + op.eps);
    for (int64_t c = 0; c < cols; ++c) op.out.f32(t)[c] = static_cast<float>(op.sum.f32(t)[c] / root * weight[c]);
  }
}

}  // namespace ingot::ref
