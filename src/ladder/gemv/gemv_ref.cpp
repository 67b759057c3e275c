#include "ladder/gemv/gemv.h"
#include "tensor/dtype.h"

namespace ingot::ref {

void run(const Gemv& op, Ctx& ctx) {
  const int64_t rows = ctx.rows(op.weight), cols = op.weight.cols;
  const auto* weight = reinterpret_cast<const uint16_t*>(op.weight.data);
  const auto* x = reinterpret_cast<const uint16_t*>(op.x.data);
  for (int64_t n = 0; n < rows; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < cols; ++k)
      sum +=
          static_cast<double>(bf16_to_f32(weight[n * op.weight.stride + k])) * static_cast<double>(bf16_to_f32(x[k]));
    reinterpret_cast<float*>(op.out.data)[n] = static_cast<float>(sum);
  }
}

}  // namespace ingot::ref
