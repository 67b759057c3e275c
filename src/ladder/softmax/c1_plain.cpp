// The definition, one value after the other, with the library's exp.
#include <cmath>

#include "ladder/cpu_step.h"
#include "ladder/softmax/softmax.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {
namespace {

void softmax_row(const float* x, float* out, int64_t n) {
  float largest = x[0];
  for (int64_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += out[i] = std::exp(x[i] - largest);
  for (int64_t i = 0; i < n; ++i) out[i] /= sum;
}

}  // namespace

void run(const Softmax& op, Ctx& ctx) {
  split_rows(ctx, ctx.rows(op.x), 8 * op.x.cols, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) softmax_row(op.x.f32(r), op.out.f32(r), op.x.cols);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
