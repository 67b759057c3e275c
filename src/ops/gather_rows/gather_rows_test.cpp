#include "ops/gather_rows/gather_rows.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;

TEST(GatherRows, RowsOfTheBatch) {
  test::Random random(1);
  Batch batch = test::rows_batch(65);
  for (int n : {0, 1, 3}) {
    batch.logit_row = {64, 0, 7};
    batch.n_logits = n;
    for (int64_t cols : {1, 63, 257}) {
      Buffer x(65, cols, kTokenRows, cols + 2), out(n, cols, kLogitRows, cols + 5);
      x.fill_outliers(random);
      test::expect_cpu_matches_ref(GatherRows{.x = x.tensor(), .out = out.tensor()}, batch, {&out}, test::exact());
      for (int l = 0; l < n; ++l)
        EXPECT_EQ(out.at(l, cols - 1), x.at(batch.logit_row[static_cast<size_t>(l)], cols - 1));
    }
  }
}

}  // namespace
}  // namespace ingot
