#include "ops/argmax/argmax_cpu.h"

#include "ops/argmax/argmax.h"

namespace ingot::cpu {

void run(const Argmax& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) *op.out.row<int32_t>(r) = argmax_row(op.x.f32(r), op.x.cols);
  });
}

}  // namespace ingot::cpu
