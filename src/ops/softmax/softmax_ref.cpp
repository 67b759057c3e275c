#include <algorithm>
#include <cmath>

#include "ops/softmax/softmax.h"

namespace ingot::ref {

void run(const Softmax& op, Ctx& ctx) {
  for (int64_t r = 0; r < ctx.rows(op.x); ++r) {
    const float* x = op.x.f32(r);
    const double max = *std::max_element(x, x + op.x.cols);
    double sum = 0;
    for (int64_t i = 0; i < op.x.cols; ++i) sum += std::exp(x[i] - max);
    for (int64_t i = 0; i < op.x.cols; ++i) op.out.f32(r)[i] = static_cast<float>(std::exp(x[i] - max) / sum);
  }
}

}  // namespace ingot::ref
