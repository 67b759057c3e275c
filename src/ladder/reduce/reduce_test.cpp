#include "ladder/reduce/reduce.h"

#include "ladder/same_bits_test_support.h"

namespace ingot {
namespace {

using namespace test;

// Rounding of the f32 sums, whatever their order: they grow with the sum of magnitudes.
Tolerance sum_tolerance(Buffer& x, int64_t n) {
  double magnitudes = 0;
  for (int64_t i = 0; i < n; ++i) magnitudes += std::fabs(static_cast<double>(x.at(0, i)));
  return [=](int64_t, int64_t, double) { return 2e-6 * magnitudes; };
}

TEST(ReduceLadder, EveryStep) {
  Random random(1);
  for (const int64_t n : {0, 1, 31, 32, 8191, 70001, 1 << 18}) {
    SCOPED_TRACE(n);
    Buffer x(1, n, kFixedRows), out(1, 1, kFixedRows);
    x.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
    check_steps(Reduce{.x = x.tensor(), .out = out.tensor()}, {.tolerance = sum_tolerance(x, n)});
  }
}

TEST(ReduceLadder, EqualValuesInfinitiesAndNaN) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> some[] = {{1.0f}, {kInf}, {-kInf}, {kInf, -kInf}, {NAN}, {0.0f, -0.0f}};
  for (const std::vector<float>& values : some) {
    Buffer x(1, 5003, kFixedRows), out(1, 1, kFixedRows);
    size_t i = 0;
    x.fill([&] { return ++i % 2500 == 7 ? values[i / 2500 % values.size()] : 1.0f; });
    check_steps(Reduce{.x = x.tensor(), .out = out.tensor()}, {});
  }
}

TEST(ReduceLadder, TheLastStepGivesTheSameBitsEveryRun) {
  Random random(2);
  for (const int64_t n : {70001, (1 << 18) + 7}) {
    Buffer x(1, n, kFixedRows), out(1, 1, kFixedRows);
    x.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
    expect_same_bits<Reduce>(x, out);
  }
}

}  // namespace
}  // namespace ingot
