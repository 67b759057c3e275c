#include "ops/rope/rope.h"
#include "ops/rope/rotate_head.h"

namespace ingot::cpu {

void run(const Rope& op, Ctx& ctx) {
  ctx.pool.run(ctx.rows(op.q), [&](int64_t t, int) {
    const auto turn = [&](const Tensor& x, int64_t first, int64_t width) {
      for (int64_t c = first; c < x.cols; c += width) {
        float* head = x.f32(t) + c;
        rotate_head(head, head, op.table.f32(t), op.table.cols, op.interleaved);
      }
    };
    turn(op.q, op.q_first, op.q_width());
    turn(op.k, 0, op.head_dim);
  });
}

}  // namespace ingot::cpu
