#include "compress/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ingot {
namespace {

std::vector<float> logs(const std::vector<double>& p) {
  std::vector<float> out;
  for (const double v : p) out.push_back(static_cast<float>(std::log(v)));
  return out;
}

const std::vector<double> kTeacher = {0.5, 0.25, 0.125, 0.125}, kModel = {0.25, 0.5, 0.125, 0.125};

double kld_of(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] * std::log(p[i] / q[i]);
  return sum;
}

TEST(Compare, SumsOfKnownDistributions) {
  DivergenceSums sums;
  std::vector<float> shifted = logs(kModel);
  for (float& v : shifted) v += 3.0f;  // logits are free up to a constant
  sums.add(logs(kTeacher), 0, shifted, 1);
  sums.add(logs(kTeacher), 0, logs(kTeacher), 2);
  sums.end_chunk();
  sums.add(logs(kTeacher), 0, logs(kTeacher), 0);
  sums.end_chunk();
  const Divergence d = sums.result();
  const double kld = kld_of(kTeacher, kModel);
  EXPECT_NEAR(d.kld, kld / 3, 1e-6);
  EXPECT_NEAR(d.kld_max, kld, 1e-6);
  EXPECT_NEAR(d.kld_p99, kld, 1e-6);
  EXPECT_NEAR(d.kld_median, 0, 1e-6);
  EXPECT_NEAR(d.top1, 2.0 / 3, 1e-12);
  EXPECT_NEAR(d.perplexity, std::cbrt(1 / (0.5 * 0.125 * 0.5)), 1e-5);
  ASSERT_EQ(d.chunk_kld.size(), 2u);
  EXPECT_NEAR(d.chunk_kld[0], kld / 2, 1e-6);
  EXPECT_NEAR(d.chunk_kld[1], 0, 1e-6);
  EXPECT_NEAR(d.kld_error, kld / 4, 1e-6);  // two means, 0 and kld / 2: their deviation over √2
}

TEST(Compare, WhatTheTeacherExcludesCountsNothing) {
  DivergenceSums sums;
  std::vector<float> teacher = logs(kTeacher);
  teacher.push_back(-INFINITY);
  std::vector<float> model = logs(kTeacher);
  model.push_back(-1.0f);
  sums.add(teacher, 0, model, 0);
  sums.end_chunk();
  EXPECT_NEAR(sums.result().kld, std::log(1 + std::exp(-1.0)), 1e-6);
}

TEST(Compare, PairedRatioForgetsWhatIsHardForBoth) {
  Divergence first, later;
  first.chunk_kld = {0.1, 0.4, 0.2, 0.9};
  later.chunk_kld = {0.05, 0.2, 0.1, 0.45};
  first.kld = 0.4, later.kld = 0.2;
  const PairedRatio half = paired_ratio(first, later);
  EXPECT_NEAR(half.ratio, 0.5, 1e-12);
  EXPECT_NEAR(half.error, 0, 1e-12);
  later.chunk_kld = {0.1, 0.15, 0.1, 0.45};
  EXPECT_GT(paired_ratio(first, later).error, 0.01);
}

}  // namespace
}  // namespace ingot
