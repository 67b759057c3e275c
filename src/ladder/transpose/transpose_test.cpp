#include "ladder/transpose/transpose.h"

#include "ladder/step_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(TransposeLadder, EveryStepMovesEveryBit) {
  Random random(1);
  const std::pair<int64_t, int64_t> shapes[] = {{0, 5},    {5, 0},    {1, 1},    {31, 33},  {64, 64},
                                                {68, 132}, {1, 8191}, {129, 40}, {70, 2117}};
  for (const auto& [rows, cols] : shapes) {
    for (const int64_t gap : {0, 4, 3}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", rows " << gap << " apart");
      if (gap > 0 && rows * cols > 8000) continue;
      Buffer x(rows, cols, kFixedRows, cols + gap), out(cols, rows, kFixedRows, rows + gap);
      x.fill([&] { return odd_value(random); });
      check_steps(Transpose{.x = x.tensor(), .out = out.tensor()}, {.bits = true});
      out.expect_intact();
    }
  }
}

}  // namespace
}  // namespace ingot
