#include "ladder/softmax/softmax.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

// Each value is off by its own roundings and by those of a sum of n.
StepChecks checks_of(int64_t cols) { return {.tolerance = relative(static_cast<double>(cols) / 16 + 64, 1e-38)}; }

void check(int64_t rows, int64_t cols, const std::function<float()>& value) {
  SCOPED_TRACE(testing::Message() << rows << " x " << cols);
  Buffer x(rows, cols, kFixedRows), out(rows, cols, kFixedRows);
  x.fill(value);
  check_steps(Softmax{.x = x.tensor(), .out = out.tensor()}, checks_of(cols));
  out.expect_intact();
}

TEST(SoftmaxLadder, EveryStepOfEveryWidth) {
  Random random(1);
  for (const int64_t cols : {1, 2, 31, 33, 64, 515, 1024, 4100, 8191, 16384, 16388}) {
    const int64_t rows = cols < 100 ? 5 : 2;
    check(rows, cols, [&] { return 10 * random.normal(); });
  }
  check(0, 7, [] { return 0.0f; });
  check(1, 40000, [&] { return random.normal(); });
}

TEST(SoftmaxLadder, TiesInfinitiesAndNaN) {
  Random random(2);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const int64_t cols : {3, 64, 1100}) {
    check(2, cols, [] { return 3.0f; });
    check(2, cols, [] { return -kInf; });  // no largest: NaN
    check(3, cols, [&] { return random.below(3) == 0 ? -kInf : random.normal(); });
    check(3, cols, [&] { return random.below(cols) == 0 ? kInf : random.normal(); });
    check(3, cols, [&] { return random.below(cols) == 0 ? NAN : random.normal(); });
    check(3, cols, [&] { return random.below(2) == 0 ? 3e38f : -3e38f; });
  }
}

}  // namespace
}  // namespace ingot
