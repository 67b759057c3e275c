// Vectors of floats: a weight row is decoded once for all rows of x, and sums are 16 lanes.
#include "ladder/cpu_step.h"
#include "ladder/q4_linear/q4_linear.h"
#include "matmul/cpu/kernels.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {

void run(const Q4Linear& op, Ctx& ctx) {
  const Q4Operands& o = *op.operands;
  float* out = op.out.f32(0);
  for_q4_parts(op, ctx, [&](int64_t first, int64_t count, std::byte* scratch) {
    auto* values = reinterpret_cast<float*>(scratch);
    for (int64_t n = first; n < first + count; ++n) {
      kernels().decoders[static_cast<size_t>(Format::kQ4_0)](o.weight.row(n), values, o.weight.cols);
      const float* row = values;
      kernels().dots(o.x_values.data(), o.rows, &row, 1, o.weight.cols, out + n, o.weight.rows);
    }
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
