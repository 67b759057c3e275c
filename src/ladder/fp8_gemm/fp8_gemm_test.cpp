#include "ladder/fp8_gemm/fp8_gemm.h"

#include "ladder/step_test_support.h"
#include "quant/formats/f8_e4m3.h"

namespace ingot {
namespace {

using namespace test;

// Codes of value(), scales of scale().
void check_gemm(int64_t m, int64_t n, int64_t k, const std::function<float()>& value,
                const std::function<float()>& scale, const Tolerance& tolerance) {
  SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
  constexpr int64_t kBlock = ladder::kFp8Block;
  const auto buffer = [](int64_t rows, int64_t cols, DType dtype) {
    return std::make_unique<Buffer>(rows, cols, kFixedRows, 0, dtype);
  };
  const auto a = buffer(m, k, DType::kFp8), b = buffer(n, k, DType::kFp8), out = buffer(m, n, DType::kBF16);
  const auto a_scale = buffer(k / kBlock, m, DType::kF32),
             b_scale = buffer((n + kBlock - 1) / kBlock, k / kBlock, DType::kF32);
  for (const auto* matrix : {&a, &b}) {
    const Tensor t = (*matrix)->tensor();
    for (int64_t i = 0; i < t.rows.b * t.cols; ++i) {
      const float x = value();
      F8_E4M3::encode(&x, t.row<uint8_t>(0) + i);
    }
  }
  for (const auto* scales : {&a_scale, &b_scale})
    for (int64_t r = 0; r < (*scales)->rows(); ++r)
      for (int64_t c = 0; c < (*scales)->cols(); ++c) (*scales)->at(r, c) = scale();
  check_steps(Fp8Gemm{.a = a->tensor(),
                      .a_scale = a_scale->tensor(),
                      .b = b->tensor(),
                      .b_scale = b_scale->tensor(),
                      .out = out->tensor()},
              {.tolerance = tolerance});
  out->expect_intact();
}

TEST(Fp8GemmLadder, EveryStep) {
  Random random(1);
  // Also more tiles than the emulated device has multiprocessors, more steps of K than a ring has places, and no block
  // of b of its own for the second half of a cluster.
  const int64_t shapes[][3] = {{0, 6, 128},    {1, 2, 128},     {33, 130, 256}, {260, 264, 128},
                               {64, 32, 1152}, {520, 392, 384}, {300, 24, 512}};
  for (const auto& [m, n, k] : shapes)
    check_gemm(
        m, n, k, [&] { return random.normal(); }, [&] { return 0.5f + static_cast<float>(random.below(1000)) * 1e-3f; },
        relative(0x1p-7 / kEps, 1e-3 * std::sqrt(static_cast<double>(k))));
}

// The largest values, zeros, a NaN, scales of very different size.
TEST(Fp8GemmLadder, ExtremesAndNaN) {
  int i = 0;
  check_gemm(
      40, 24, 256, [&] { return ++i % 1201 == 5 ? NAN : static_cast<float>(i % 5); }, [] { return 1.0f; },
      relative(0x1p-8 / kEps));
  check_gemm(
      40, 24, 256, [&] { return ++i % 2 == 0 ? 448.0f : 0.0f; }, [&] { return ++i % 2 == 0 ? 1e-6f : 1e6f; },
      relative(0x1p-8 / kEps));
}

}  // namespace
}  // namespace ingot
