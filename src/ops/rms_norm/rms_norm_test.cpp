#include "ops/rms_norm/rms_norm.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

// A sum of n squares over 16 lanes has n / 16 + 4 roundings; the root halves their share.
Tolerance tolerance_of(int64_t n) { return relative(static_cast<double>(n) / 32 + 8); }

TEST(RmsNorm, MatchesReference) {
  Random random(3);
  for (const RowShape& shape : kRowShapes) {
    const std::vector<float> weight = normal_values(random, shape.cols);
    check_unary(
        [&](Tensor x, Tensor out) {
          return RmsNorm{.x = x, .weight = f32_weight(weight), .out = out, .width = shape.cols, .eps = 1e-6f};
        },
        [&](Buffer&) { return tolerance_of(shape.cols); }, {shape});
  }
}

TEST(RmsNorm, HeadByHead) {
  Random random(4);
  for (const int64_t width : {1, 63, 64, 128}) {
    const std::vector<float> weight = normal_values(random, width);
    check_unary(
        [&](Tensor x, Tensor out) {
          return RmsNorm{.x = x, .weight = f32_weight(weight), .out = out, .width = width, .eps = 1e-5f};
        },
        [&](Buffer&) { return tolerance_of(width); }, {{1, 3 * width}, {200, 9 * width}});
  }
}

TEST(RmsNorm, EpsilonKeepsZerosFinite) {
  const std::vector<float> weight(40, 2.0f);
  Buffer x(2, 40), out(2, 40);
  x.fill([] { return 0.0f; });
  run_cpu(RmsNorm{.x = x.tensor(), .weight = f32_weight(weight), .out = out.tensor(), .width = 40, .eps = 1e-6f},
          rows_batch(2));
  for (const float v : out.values()) EXPECT_EQ(v, 0.0f);
}

TEST(RmsNorm, KnownValues) {
  const std::vector<float> weight = {1, 2};
  Buffer x(1, 2), out(1, 2);
  x.at(0, 0) = 3;
  x.at(0, 1) = 4;
  const RmsNorm op{.x = x.tensor(), .weight = f32_weight(weight), .out = out.tensor(), .width = 2, .eps = 0};
  run_ref(op, rows_batch(1));
  EXPECT_FLOAT_EQ(out.at(0, 0), 3 / std::sqrt(12.5f));
  EXPECT_FLOAT_EQ(out.at(0, 1), 8 / std::sqrt(12.5f));
}

}  // namespace
}  // namespace ingot
