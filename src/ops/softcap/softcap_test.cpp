#include "ops/softcap/softcap.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(Softcap, MatchesReference) {
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    // A quotient, a tanh of 3 ulp, a product.
    check_unary([=](Tensor x, Tensor out) { return Softcap{x, out, cap}; }, [](Buffer&) { return relative(6); });
  }
}

TEST(Softcap, Extremes) {
  Buffer x(1, 5), out(1, 5);
  const float values[] = {0.0f, 1e30f, -1e30f, std::numeric_limits<float>::infinity(), 1e-30f};
  for (int64_t i = 0; i < 5; ++i) x.at(0, i) = values[i];
  run_cpu(Softcap{x.tensor(), out.tensor(), 30.0f}, rows_batch(1));
  EXPECT_EQ(out.at(0, 0), 0.0f);
  EXPECT_EQ(out.at(0, 1), 30.0f);
  EXPECT_EQ(out.at(0, 2), -30.0f);
  EXPECT_EQ(out.at(0, 3), 30.0f);
  EXPECT_FLOAT_EQ(out.at(0, 4), 1e-30f);
}

}  // namespace
}  // namespace ingot
