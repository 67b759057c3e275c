#include "ops/position_scale/position_scale.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(PositionScale, MatchesReference) {
  Random random(2);
  for (const int period : {1, 16, 8192}) {
    const Batch batch = make_batch({{.rows = 5, .past = 14}, {.rows = 1, .past = 100}, {.rows = 3, .past = 0}});
    Buffer x(batch.n_rows, 37);
    x.fill_outliers(random);
    const float first = x.at(8, 3);  // position 2
    expect_cpu_matches_ref(PositionScale{.x = x.tensor(), .period = period, .offset = 0, .beta = 0.1f}, batch, {},
                           relative(4), {&x});
    if (period > 2) {
      EXPECT_EQ(x.at(8, 3), first);
    }
  }
}

}  // namespace
}  // namespace ingot
