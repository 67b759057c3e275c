#include "ladder/sgemm/sgemm.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

void check_sgemm(int64_t m, int64_t n, int64_t k, const std::function<float()>& value, const Tolerance& tolerance) {
  SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
  Buffer a(m, k, kFixedRows), b(k, n, kFixedRows), out(m, n, kFixedRows);
  a.fill(value);
  b.fill(value);
  check_steps(Sgemm{.a = a.tensor(), .b = b.tensor(), .out = out.tensor()}, {.tolerance = tolerance});
}

TEST(SgemmLadder, EveryStep) {
  Random random(1);
  const int64_t shapes[][3] = {{0, 5, 3},      {1, 1, 1},      {31, 33, 7},   {64, 64, 8},
                               {128, 128, 16}, {256, 128, 64}, {130, 70, 40}, {256, 512, 80}};
  for (const auto& [m, n, k] : shapes)
    check_sgemm(
        m, n, k, [&] { return random.normal(); }, relative(64, 1e-5 * static_cast<double>(k)));
}

TEST(SgemmLadder, InfinitiesAndNaN) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float odd : {kInf, -kInf, static_cast<float>(NAN)}) {
    int i = 0;
    check_sgemm(
        128, 128, 32, [&] { return ++i % 6007 == 5 ? odd : static_cast<float>(i % 5); }, exact());
  }
}

}  // namespace
}  // namespace ingot
