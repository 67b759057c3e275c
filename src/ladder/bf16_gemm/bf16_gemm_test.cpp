#include "ladder/bf16_gemm/bf16_gemm.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

void check_gemm(int64_t m, int64_t n, int64_t k, const std::function<float()>& value, const Tolerance& tolerance) {
  SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
  const auto buffer = [](int64_t rows, int64_t cols) {
    return std::make_unique<Buffer>(rows, cols, kFixedRows, 0, DType::kBF16);
  };
  const auto a = buffer(m, k), b = buffer(n, k), out = buffer(m, n);
  for (const auto* matrix : {&a, &b}) {
    const Tensor t = (*matrix)->tensor();
    for (int64_t r = 0; r < t.rows.b; ++r)
      for (int64_t c = 0; c < t.cols; ++c) t.row<uint16_t>(r)[c] = f32_to_bf16(value());
  }
  check_steps(Bf16Gemm{.a = a->tensor(), .b = b->tensor(), .out = out->tensor()}, {.tolerance = tolerance});
  out->expect_intact();
}

TEST(Bf16GemmLadder, EveryStep) {
  Random random(1);
  // Also more tiles than the emulated device has multiprocessors, and more steps of K than a ring has places.
  const int64_t shapes[][3] = {{0, 6, 8},     {1, 2, 8},       {33, 130, 24}, {258, 258, 72},
                               {64, 32, 520}, {200, 520, 136}, {264, 24, 136}};
  for (const auto& [m, n, k] : shapes)
    check_gemm(
        m, n, k, [&] { return random.normal(); }, relative(0x1p-7 / kEps, 1e-5 * static_cast<double>(k)));
}

TEST(Bf16GemmLadder, InfinitiesAndNaN) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float odd : {kInf, static_cast<float>(NAN)}) {
    int i = 0;
    check_gemm(
        40, 24, 64, [&] { return ++i % 1201 == 5 ? odd : static_cast<float>(i % 5); }, relative(0x1p-8 / kEps));
  }
}

}  // namespace
}  // namespace ingot
