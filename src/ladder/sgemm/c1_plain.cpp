// The definition: one sum after another, its values of b a row apart, so that a line is fetched for 4 of its 64 bytes.
#include "ladder/cpu_step.h"
#include "ladder/sgemm/sgemm.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

void sums(const Sgemm& op, int64_t first, int64_t last) {
  for (int64_t m = first; m < last; ++m) {
    for (int64_t n = 0; n < op.out.cols; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < op.a.cols; ++k) sum += op.a.f32(m)[k] * op.b.f32(k)[n];
      op.out.f32(m)[n] = sum;
    }
  }
}

}  // namespace

void run(const Sgemm& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.out), 2 * op.a.cols * op.out.cols,
             [&](int64_t first, int64_t last) { sums(op, first, last); });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
