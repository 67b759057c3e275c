// Loops in another order: a row of b is added, times one value of a, to a row of results. All is read in order.
#include "ladder/cpu_step.h"
#include "ladder/sgemm/sgemm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

void sums(const Sgemm& op, int64_t first, int64_t last) {
  for (int64_t m = first; m < last; ++m) {
    float* out = op.out.f32(m);
    for (int64_t n = 0; n < op.out.cols; ++n) out[n] = 0;
    for (int64_t k = 0; k < op.a.cols; ++k) {
      const float a = op.a.f32(m)[k];
      const float* b = op.b.f32(k);
      for (int64_t n = 0; n < op.out.cols; ++n) out[n] = multiply_add(a, b[n], out[n]);
    }
  }
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.out), 2 * op.a.cols * op.out.cols,
             [&](int64_t first, int64_t last) { sums(op, first, last); });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
