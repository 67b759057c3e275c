#include "quant/rotation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/channel_scales.h"

namespace ingot {
namespace {

std::vector<float> unit(int64_t n, int64_t at) {
  std::vector<float> x(static_cast<size_t>(n));
  x[static_cast<size_t>(at)] = 1;
  return x;
}

TEST(Rotation, IsOrthogonalForAnySize) {
  for (const int64_t n : {1, 8, 9, 12, 64, 80, 576}) {
    const Rotation rotation(n, 7);
    std::vector<std::vector<float>> q;
    for (int64_t i = 0; i < n; ++i) rotation.row(q.emplace_back(unit(n, i)).data());
    for (size_t i = 0; i < q.size(); i += 5) {
      for (size_t j = 0; j < q.size(); ++j) {
        double dot = 0;
        for (size_t k = 0; k < q.size(); ++k) dot += static_cast<double>(q[i][k]) * static_cast<double>(q[j][k]);
        ASSERT_NEAR(dot, i == j ? 1 : 0, 1e-6) << n << ' ' << i << ' ' << j;
      }
    }
  }
}

TEST(Rotation, TurnsColumnsAsRows) {
  const Rotation rotation(12, 1), same(12, 1), other(12, 2);
  std::vector<float> matrix(12 * 3);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i * i % 17) - 8;
  std::vector<float> turned = matrix;
  rotation.columns(turned.data(), 3, 3);
  bool differs = false;
  for (size_t c = 0; c < 3; ++c) {
    std::vector<float> column, again;
    for (size_t r = 0; r < 12; ++r) column.push_back(matrix[r * 3 + c]);
    again = column;
    same.row(column.data());
    other.row(again.data());
    for (size_t r = 0; r < 12; ++r) EXPECT_EQ(turned[r * 3 + c], column[r]);
    differs = differs || again != column;
  }
  EXPECT_TRUE(differs);  // by the seed
}

// One value of 100 among ones of 1: afterwards no value stands out by more than a few times.
TEST(Rotation, SpreadsAnOutlier) {
  std::vector<float> x(576, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1.0f : -1.0f;
  x[100] = 100;
  Rotation(576, 1).row(x.data());
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  EXPECT_LT(largest, 15);
}

TEST(ChannelScales, FollowTheInputs) {
  const std::vector<float> mean = {1, 4, 16, 0};
  EXPECT_EQ(awq_scales(mean, 0), std::vector<float>(4, 1.0f));
  const std::vector<float> half = awq_scales(mean, 0.5f);
  EXPECT_NEAR(half[1] / half[0], 2, 1e-5);
  EXPECT_NEAR(half[2] / half[0], 4, 1e-5);
  EXPECT_NEAR(half[3] / half[2], 1 / 64.0, 1e-5);  // 1/4096 of the largest, its root
  const std::vector<float> smooth = smooth_scales(mean, std::vector<float>{1, 1, 4, 1}, 0.5f);
  EXPECT_NEAR(smooth[1] / smooth[0], 2, 1e-5);
  EXPECT_NEAR(smooth[2] / smooth[0], 2, 1e-5);
}

TEST(ChannelScales, RoundsRowsAsW8A8Does) {
  std::vector<float> x = {127, 1.4f, -63.6f, 0, 0, 0};
  round_rows_int8(x, 2, 3);
  EXPECT_EQ(x, (std::vector<float>{127, 1, -64, 0, 0, 0}));
  std::vector<float> out(2, 1.0f);
  add_products(std::vector<float>{2, 3}, std::vector<float>{1, 10, 2, 20}, out);
  EXPECT_EQ(out, (std::vector<float>{9, 81}));
}

}  // namespace
}  // namespace ingot
