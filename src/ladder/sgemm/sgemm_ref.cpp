#include "ladder/sgemm/sgemm.h"

namespace ingot::ref {

void run(const Sgemm& op, Ctx& ctx) {
  const auto at = [](const Tensor& t, int64_t r, int64_t c) -> float& {
    return reinterpret_cast<float*>(t.data)[r * t.stride + c];
  };
  for (int64_t m = 0; m < ctx.rows(op.out); ++m) {
    for (int64_t n = 0; n < op.out.cols; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < op.a.cols; ++k)
        sum += static_cast<double>(at(op.a, m, k)) * static_cast<double>(at(op.b, k, n));
      at(op.out, m, n) = static_cast<float>(sum);
    }
  }
}

}  // namespace ingot::ref
