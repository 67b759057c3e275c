#include "ladder/histogram/histogram.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(HistogramLadder, EveryStep) {
  Random random(1);
  for (const int64_t n : {0, 1, 31, 8191, 70001}) {
    for (const bool bytes : {false, true}) {
      SCOPED_TRACE(testing::Message() << n << (bytes ? " bytes" : " floats"));
      Buffer x(1, n, kFixedRows), counts(1, 256, kFixedRows);
      x.fill(
          [&] { return random.below(8) == 0 ? odd_value(random) : static_cast<float>(2.2 * random.uniform() - 1.1); });
      check_steps(Histogram{.x = x.tensor(), .counts = counts.tensor(), .bytes = bytes}, {.bits = true});
    }
  }
}

TEST(HistogramLadder, OneBinAndBorders) {
  for (const float value : {-1.0f, 0.999999f, 1.0f, -1.0000001f, 0.25f}) {
    for (const bool bytes : {false, true}) {
      Buffer x(1, 5003, kFixedRows), counts(1, 256, kFixedRows);
      x.fill([&] { return value; });
      check_steps(Histogram{.x = x.tensor(), .counts = counts.tensor(), .bytes = bytes}, {.bits = true});
    }
  }
}

}  // namespace
}  // namespace ingot
