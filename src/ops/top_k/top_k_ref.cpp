#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/top_k/top_k.h"

namespace ingot::ref {

void run(const TopK& op, Ctx& ctx) {
  std::vector<int32_t> order(static_cast<size_t>(op.x.cols));
  for (int64_t r = 0; r < ctx.rows(op.x); ++r) {
    const float* x = op.x.f32(r);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [x](int32_t a, int32_t b) {
      if (std::isnan(x[a]) || std::isnan(x[b])) return !std::isnan(x[a]);
      return x[a] > x[b];
    });
    for (int64_t k = 0; k < op.ids.cols; ++k) {
      op.ids.row<int32_t>(r)[k] = order[static_cast<size_t>(k)];
      op.values.f32(r)[k] = x[order[static_cast<size_t>(k)]];
    }
  }
}

}  // namespace ingot::ref
