#include <cmath>

#include "base/check.h"
#include "ops/rope_table/rope_table.h"

namespace ingot::cpu {

void run(const RopeTable& op, Ctx& ctx) {
  const int64_t half = static_cast<int64_t>(op.inv_freq.size());
  CHECK(op.out.cols == 2 * half, "{} columns for {} frequencies", op.out.cols, half);
  ctx.pool.run(ctx.rows(op.out), [&](int64_t t, int) {
    const float position = static_cast<float>(ctx.batch.position[static_cast<size_t>(t)]);
    float* cos = op.out.f32(t);
    float* sin = cos + half;
    for (int64_t i = 0; i < half; ++i) {
      const float angle = position * op.inv_freq[static_cast<size_t>(i)];
      cos[i] = cosf(angle) * op.magnitude;
      sin[i] = sinf(angle) * op.magnitude;
    }
  });
}

}  // namespace ingot::cpu
