// For many rows: nibbles and scales are expanded once, and tiles of rows meet them.
#include "ladder/cpu_step.h"
#include "ladder/q4_linear/q4_linear.h"
#include "matmul/cpu/kernels.h"

namespace ingot::cpu::INGOT_ISA::INGOT_STEP {

void run(const Q4Linear& op, Ctx& ctx) {
  const Q4Operands& o = *op.operands;
  float* out = op.out.f32(0);
  for_q4_parts(op, ctx, [&](int64_t first, int64_t count, std::byte* scratch) {
    const PanelKernels& k = *kernels().panels;
    const PanelSpan span{&o.packed, first / kPanelRows, (count + kPanelRows - 1) / kPanelRows};
    auto* sums = reinterpret_cast<float*>(scratch + q4_expanded_bytes(o, span.n));
    if (k.run_pieces != nullptr) {
      k.run_pieces(span, scratch, o.x_rows.data(), o.rows, sums, span.n * kPanelRows);
    } else {
      k.expand(span, scratch);
      k.run_expanded(span, scratch, o.x_rows.data(), o.rows, sums, span.n * kPanelRows);
    }
    copy_q4_sums(o, sums, span.n * kPanelRows, first, count, out);
  });
}

}  // namespace ingot::cpu::INGOT_ISA::INGOT_STEP
