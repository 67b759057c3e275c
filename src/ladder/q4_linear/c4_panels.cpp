// Packed panels: a vector holds 16 outputs, so no sum crosses its lanes, and scales are loaded 16 at a time.
#include "ladder/cpu_step.h"
#include "ladder/q4_linear/q4_linear.h"
#include "matmul/cpu/kernels.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {

void run(const Q4Linear& op, Ctx& ctx) {
  const Q4Operands& o = *op.operands;
  float* out = op.out.f32(0);
  for_q4_parts(op, ctx, [&](int64_t first, int64_t count, std::byte* scratch) {
    const PanelSpan span{&o.packed, first / kPanelRows, (count + kPanelRows - 1) / kPanelRows};
    auto* sums = reinterpret_cast<float*>(scratch);
    kernels().panels->run(span, o.x_rows.data(), o.rows, sums, span.n * kPanelRows);
    copy_q4_sums(o, sums, span.n * kPanelRows, first, count, out);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
