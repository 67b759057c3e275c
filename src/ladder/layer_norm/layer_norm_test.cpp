#include "ladder/layer_norm/layer_norm.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

// As a sum in order rounds: n times half a unit of the largest, as a share of the row's spread.
StepChecks checks_of(Buffer& x, float spread) {
  double largest = 0;
  for (const float v : x.values())
    largest = std::isfinite(v) ? std::max(largest, std::fabs(static_cast<double>(v))) : largest;
  const double off = (static_cast<double>(x.cols()) / 4 + 32) * kEps * (1 + largest / static_cast<double>(spread));
  return {.tolerance = [off](int64_t, int64_t, double want) { return off * (4 + std::fabs(want)); }};
}

void check(int64_t rows, int64_t cols, bool with_bias, float spread, const std::function<float()>& value) {
  SCOPED_TRACE(testing::Message() << rows << " x " << cols << (with_bias ? " with a bias" : ""));
  Random random(static_cast<uint64_t>(cols));
  Buffer x(rows, cols, kFixedRows), out(rows, cols, kFixedRows);
  x.fill(value);
  const std::vector<float> weight = normal_values(random, cols), bias = normal_values(random, cols);
  check_steps(LayerNorm{.x = x.tensor(),
                        .weight = f32_weight(weight),
                        .bias = with_bias ? f32_weight(bias) : Weight{},
                        .out = out.tensor(),
                        .eps = 1e-5f},
              checks_of(x, spread));
  out.expect_intact();
}

TEST(LayerNormLadder, EveryStepOfEveryWidth) {
  Random random(1);
  for (const int64_t cols : {1, 2, 31, 33, 64, 515, 1024, 4100, 8191, 16384, 16388}) {
    check(cols < 100 ? 5 : 2, cols, cols % 2 == 0, 1, [&] { return random.normal(); });
  }
  check(0, 7, true, 1, [] { return 0.0f; });
  check(1, 40000, true, 1, [&] { return random.normal(); });
}

TEST(LayerNormLadder, FarFromZeroEqualAndNotFinite) {
  Random random(2);
  for (const int64_t cols : {3, 64, 1100}) {
    check(2, cols, true, 1, [&] { return 1000.0f + random.normal(); });
    check(2, cols, true, 0.003f, [] { return 7.0f; });  // nothing but eps under the root
    check(3, cols, false, 1, [&] { return random.below(cols) == 0 ? NAN : random.normal(); });
    check(3, cols, false, 1, [&] { return random.below(cols) == 0 ? -INFINITY : random.normal(); });
  }
}

}  // namespace
}  // namespace ingot
