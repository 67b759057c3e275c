#include "cli/bench/spread.h"

#include <gtest/gtest.h>

#include <vector>

namespace ingot {
namespace {

TEST(Spread, Quantiles) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.5), 2);
  EXPECT_EQ(quantile(values, 0.51), 3);
  EXPECT_EQ(quantile(values, 1), 4);
}

TEST(Spread, Json) {
  const std::vector<double> values = {1, 2, 3, 6};
  EXPECT_EQ(to_json(spread_json(values)),
            R"({"count":4,"mean":3.0,"p1":1.0,"p10":1.0,"p50":2.0,"p90":6.0,"p95":6.0,"p99":6.0,"max":6.0})");
  EXPECT_EQ(spread_json({}).at("max").as_double(), 0);
  EXPECT_EQ(spread_line("none", {}), "");
  EXPECT_EQ(spread_line("some", values).size(), spread_header().size());
}

TEST(Spread, CurveEndsAtAll) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i);
  const JsonArray curve = spread_curve(values);
  EXPECT_LE(curve.size(), 400u);
  EXPECT_EQ(to_json(curve.back()), "[999.0,100.0]");
  EXPECT_TRUE(spread_curve({}).empty());
}

}  // namespace
}  // namespace ingot
