#include <cmath>
#include <vector>

#include "comm/comm.h"
#include "ops/all_reduce_add_norm/all_reduce_add_norm.h"

namespace ingot::ref {

// One row after another: all ranks' beside each other, then their sum.
void run(const AllReduceAddNorm& op, Ctx& ctx) {
  const auto ranks = static_cast<size_t>(op.comm->ranks()), own = static_cast<size_t>(op.comm->rank());
  const auto cols = static_cast<size_t>(op.out.cols);
  const float* weight = reinterpret_cast<const float*>(op.weight.data);
  std::vector<float> rows(ranks * cols);
  std::vector<CommBlock> parts;
  for (size_t r = 0; r < ranks; ++r)
    parts.push_back({.data = reinterpret_cast<std::byte*>(rows.data() + r * cols),
                     .bytes = static_cast<int64_t>(cols * sizeof(float))});
  for (int64_t t = 0; t < ctx.rows(op.out); ++t) {
    for (size_t c = 0; c < cols; ++c) rows[own * cols + c] = op.x.f32(t)[c];
    op.comm->all_gather(parts);
    double squares = 0;
    for (size_t c = 0; c < cols; ++c) {
      float sum = rows[c];
      for (size_t r = 1; r < ranks; ++r) sum += rows[r * cols + c];
      sum += op.residual.f32(t)[c];
      op.sum.f32(t)[c] = sum;
      squares += static_cast<double>(sum) * sum;
    }
    const double root = std::sqrt(squares / static_cast<double>(cols) + op.eps);
    for (size_t c = 0; c < cols; ++c) op.out.f32(t)[c] = static_cast<float>(op.sum.f32(t)[c] / root * weight[c]);
  }
}

}  // namespace ingot::ref
