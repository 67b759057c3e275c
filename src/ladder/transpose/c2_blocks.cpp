// Blocks of 16 x 16: a line of 64 bytes that was fetched for one value is written whole before it leaves the cache.
#include "ladder/cpu_step.h"
#include "ladder/transpose/transpose.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {

void run(const Transpose& op, Ctx& ctx) {
  constexpr int64_t kBlock = 16;
  const int64_t rows = ctx.rows(op.x), cols = op.x.cols;
  split_rows(ctx, (cols + kBlock - 1) / kBlock, 8 * kBlock * rows, [&](int64_t first, int64_t last) {
    for (int64_t left = first * kBlock; left < (last * kBlock < cols ? last * kBlock : cols); left += kBlock) {
      const int64_t right = left + kBlock < cols ? left + kBlock : cols;
      for (int64_t top = 0; top < rows; top += kBlock) {
        const int64_t bottom = top + kBlock < rows ? top + kBlock : rows;
        for (int64_t c = left; c < right; ++c)
          for (int64_t r = top; r < bottom; ++r) op.out.f32(c)[r] = op.x.f32(r)[c];
      }
    }
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
