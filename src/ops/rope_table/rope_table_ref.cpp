#include <cmath>

#include "ops/rope_table/rope_table.h"

namespace ingot::ref {

void run(const RopeTable& op, Ctx& ctx) {
  const size_t half = op.inv_freq.size();
  for (int64_t t = 0; t < ctx.rows(op.out); ++t) {
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(ctx.batch.position[static_cast<size_t>(t)]) * op.inv_freq[i];
      op.out.f32(t)[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * op.magnitude;
      op.out.f32(t)[i + half] = static_cast<float>(std::sin(static_cast<double>(angle))) * op.magnitude;
    }
  }
}

}  // namespace ingot::ref
