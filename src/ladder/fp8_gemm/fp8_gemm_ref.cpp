#include "ladder/fp8_gemm/fp8_gemm.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot::ref {
namespace {

double value_of(const Tensor& codes, int64_t row, int64_t col) {
  float value = 0;
  F8_E4M3::decode(codes.row<uint8_t>(row) + col, &value);
  return static_cast<double>(value);
}

}  // namespace

void run(const Fp8Gemm& op, Ctx& ctx) {
  constexpr int64_t kBlock = ladder::kFp8Block;
  for (int64_t m = 0; m < ctx.rows(op.a); ++m) {
    for (int64_t n = 0; n < ctx.rows(op.b); ++n) {
      double sum = 0;
      for (int64_t first = 0; first < op.a.cols; first += kBlock) {
        double part = 0;
        for (int64_t k = first; k < first + kBlock; ++k) part += value_of(op.a, m, k) * value_of(op.b, n, k);
        sum += part * static_cast<double>(op.a_scale.f32(first / kBlock)[m]) *
               static_cast<double>(op.b_scale.f32(n / kBlock)[first / kBlock]);
      }
      op.out.row<uint16_t>(m)[n] = f32_to_bf16(static_cast<float>(sum));
    }
  }
}

}  // namespace ingot::ref
