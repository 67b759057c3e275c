// The definition: rows are read in order, and every write is to another line.
#include "ladder/cpu_step.h"
#include "ladder/transpose/transpose.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {

void run(const Transpose& op, Ctx& ctx) {
  const int64_t cols = op.x.cols;
  split_rows(ctx, ctx.rows(op.x), 8 * cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      for (int64_t c = 0; c < cols; ++c) op.out.f32(c)[r] = op.x.f32(r)[c];
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
