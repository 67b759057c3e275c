#include "ladder/bf16_gemm/bf16_gemm.h"

namespace ingot::ref {

void run(const Bf16Gemm& op, Ctx& ctx) {
  for (int64_t m = 0; m < ctx.rows(op.a); ++m) {
    for (int64_t n = 0; n < ctx.rows(op.b); ++n) {
      double sum = 0;
      for (int64_t k = 0; k < op.a.cols; ++k)
        sum += static_cast<double>(bf16_to_f32(op.a.row<uint16_t>(m)[k])) *
               static_cast<double>(bf16_to_f32(op.b.row<uint16_t>(n)[k]));
      op.out.row<uint16_t>(m)[n] = f32_to_bf16(static_cast<float>(sum));
    }
  }
}

}  // namespace ingot::ref
