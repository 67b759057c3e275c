#include "ops/rope/rope.h"
#include "ops/rope/rotate_head.h"

namespace ingot::cpu {

void run(const Rope& op, Ctx& ctx) {
  ctx.pool.run(ctx.rows(op.q), [&](int64_t t, int) {
    for (const Tensor* x : {&op.q, &op.k}) {
      for (int64_t c = 0; c < x->cols; c += op.head_dim) {
        float* head = x->f32(t) + c;
        rotate_head(head, head, op.table.f32(t), op.table.cols, op.interleaved);
      }
    }
  });
}

}  // namespace ingot::cpu
