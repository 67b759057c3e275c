#include "ops/softmax/softmax.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

const std::vector<RowShape> kShapes = {{1, 1},     {3, 63},   {2, 64},    {3, 100},
                                       {1100, 65}, {3, 8193}, {1, 10000}, {2, 151936}};

TEST(Softmax, MatchesReference) {
  // exp turns the rounding of x - max, half an ulp of at most 300, into a relative error;
  // two steps of the smallest numbers.
  check_unary(
      [](Tensor x, Tensor out) {
        return Softmax{x, out};
      },
      [](Buffer& x) {
        float span = 0;
        for (const float v : x.values()) span = std::max(span, std::fabs(v));
        const double n = static_cast<double>(x.cols());
        return relative(2 * static_cast<double>(span) + n / 16 + 8, 4e-45);
      },
      kShapes);
}

TEST(Softmax, SumsToOneAndMasksInfinities) {
  Random random(7);
  Buffer x(2, 300), out(2, 300);
  x.fill([&] { return 20 * random.normal(); });
  x.at(0, 17) = -std::numeric_limits<float>::infinity();
  x.at(1, 5) = 3e38f;
  run_cpu(Softmax{x.tensor(), out.tensor()}, rows_batch(2));
  EXPECT_EQ(out.at(0, 17), 0.0f);
  EXPECT_EQ(out.at(1, 5), 1.0f);
  for (int64_t r = 0; r < 2; ++r) {
    double sum = 0;
    for (const float v : row_of(out, r)) sum += v;
    EXPECT_NEAR(sum, 1.0, 30 * kEps);
  }
}

}  // namespace
}  // namespace ingot
