#include "ops/layer_norm/layer_norm.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

// (x - mean) is off by the mean's n / 16 + 4 roundings of values as large as the row's largest; the scale by
// as many relative ones.
Tolerance tolerance_of(Buffer& x, const std::vector<float>& weight, const std::vector<float>& bias, float eps) {
  std::vector<double> of_row;
  const double n = static_cast<double>(x.cols());
  for (int64_t r = 0; r < x.rows(); ++r) {
    double largest = 0, mean = 0, variance = 0;
    for (const float v : row_of(x, r)) largest = std::max(largest, std::fabs(static_cast<double>(v)));
    for (const float v : row_of(x, r)) mean += v / n;
    for (const float v : row_of(x, r)) variance += (v - mean) * (v - mean) / n;
    of_row.push_back((n / 16 + 8) * (largest + std::fabs(mean)) / std::sqrt(variance + eps));
  }
  return [of_row, &weight, &bias](int64_t r, int64_t c, double want) {
    const size_t i = static_cast<size_t>(c);
    const double scaled = of_row[static_cast<size_t>(r)] * std::fabs(static_cast<double>(weight[i]));
    return kEps * (scaled + (bias.empty() ? 0 : 2 * std::fabs(static_cast<double>(bias[i]))) + std::fabs(want));
  };
}

TEST(LayerNorm, MatchesReference) {
  Random random(5);
  for (const RowShape& shape : kRowShapes) {
    for (const bool with_bias : {false, true}) {
      const std::vector<float> weight = normal_values(random, shape.cols);
      const std::vector<float> bias = with_bias ? normal_values(random, shape.cols) : std::vector<float>{};
      check_unary(
          [&](Tensor x, Tensor out) {
            return LayerNorm{.x = x,
                             .weight = f32_weight(weight),
                             .bias = with_bias ? f32_weight(bias) : Weight{},
                             .out = out,
                             .eps = 1e-5f};
          },
          [&](Buffer& x) { return tolerance_of(x, weight, bias, 1e-5f); }, {shape});
    }
  }
}

TEST(LayerNorm, DoesNotCancelFarFromZero) {
  Random random(6);
  const std::vector<float> weight(512, 1.0f);
  Buffer x(1, 512), out(1, 512), want(1, 512);
  x.fill([&] { return 1000.0f + random.normal(); });
  LayerNorm op{.x = x.tensor(), .weight = f32_weight(weight), .bias = {}, .out = want.tensor(), .eps = 1e-5f};
  run_ref(op, rows_batch(1));
  op.out = out.tensor();
  run_cpu(op, rows_batch(1));
  for (int64_t c = 0; c < 512; ++c) EXPECT_NEAR(out.at(0, c), want.at(0, c), 40 * 1000 * kEps);
}

}  // namespace
}  // namespace ingot
