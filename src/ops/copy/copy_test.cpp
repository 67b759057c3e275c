#include "ops/copy/copy.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;

TEST(Copy, RowsOfOtherStrides) {
  test::Random random(1);
  for (int rows : {1, 65})
    for (int64_t cols : {1, 63, 257}) {
      Buffer x(rows, cols, kTokenRows, cols + 2), out(rows, cols, kTokenRows, cols + 5);
      x.fill_outliers(random);
      test::expect_cpu_matches_ref(Copy{.x = x.tensor(), .out = out.tensor()}, test::rows_batch(rows), {&out},
                                   test::exact());
      test::expect_same_bits(out.values(), x.values(), "copy");
    }
}

TEST(Copy, SixteenBits) {
  for (bool use_ref : {false, true}) {
    Buffer x(3, 5, kTokenRows, 6, DType::kF16), out(3, 5, kTokenRows, 9, DType::kF16);
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t c = 0; c < 5; ++c) x.tensor().row<uint16_t>(t)[c] = static_cast<uint16_t>(100 * t + c);
    const Copy op{.x = x.tensor(), .out = out.tensor()};
    use_ref ? test::run_ref(op, test::rows_batch(3)) : test::run_cpu(op, test::rows_batch(3), 2);
    out.expect_intact();
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t c = 0; c < 5; ++c) EXPECT_EQ(out.tensor().row<uint16_t>(t)[c], 100 * t + c);
  }
}

}  // namespace
}  // namespace ingot
