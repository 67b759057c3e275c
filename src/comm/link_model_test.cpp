#include "comm/link_model.h"

#include <gtest/gtest.h>

#include <array>

namespace ingot {
namespace {

constexpr std::array<int64_t, 4> kParts = {1000, 2000, 500, 1000};

LinkModel of(LinkForm form) { return {.form = form, .call_us = 2, .latency_us = 3, .gbs = 0.5}; }

TEST(LinkModel, Seconds) {
  // 2 us, 4 x 3 us, and 5,000 bytes at 500 bytes a microsecond.
  EXPECT_DOUBLE_EQ(of(LinkForm::kRing).seconds({.steps = 4, .bytes = 5000}), 24e-6);
  EXPECT_DOUBLE_EQ(of(LinkForm::kRing).seconds(LinkModel::message(0)), 5e-6);
  EXPECT_DOUBLE_EQ(of(LinkForm::kRing).seconds(LinkModel::message(1500)), 8e-6);
}

TEST(LinkModel, Gathers) {
  EXPECT_EQ(of(LinkForm::kRing).all_gather(kParts), (LinkWork{.steps = 3, .bytes = 6000}));
  EXPECT_EQ(of(LinkForm::kDirect).all_gather(kParts), (LinkWork{.steps = 1, .bytes = 6000}));
  EXPECT_EQ(of(LinkForm::kSwitch).all_gather(kParts), (LinkWork{.steps = 1, .bytes = 4000}));
  EXPECT_EQ(LinkModel::gather(kParts, 0), (LinkWork{.steps = 1, .bytes = 3500}));
  EXPECT_EQ(LinkModel::gather(kParts, 1), (LinkWork{.steps = 1, .bytes = 2500}));
}

TEST(LinkModel, Sums) {
  EXPECT_EQ(of(LinkForm::kRing).all_reduce(4, 8000), (LinkWork{.steps = 6, .bytes = 12000}));
  EXPECT_EQ(of(LinkForm::kDirect).all_reduce(4, 8000), (LinkWork{.steps = 1, .bytes = 24000}));
  EXPECT_EQ(of(LinkForm::kDirect).all_reduce(4, 65536), (LinkWork{.steps = 1, .bytes = 196608}));
  EXPECT_EQ(of(LinkForm::kDirect).all_reduce(4, 80000), (LinkWork{.steps = 2, .bytes = 120000}));
  EXPECT_EQ(of(LinkForm::kSwitch).all_reduce(4, 80000), (LinkWork{.steps = 1, .bytes = 80000}));
  EXPECT_EQ(of(LinkForm::kRing).reduce_scatter(4, 8000), (LinkWork{.steps = 3, .bytes = 6000}));
  EXPECT_EQ(of(LinkForm::kDirect).reduce_scatter(4, 8000), (LinkWork{.steps = 1, .bytes = 6000}));
  EXPECT_EQ(of(LinkForm::kSwitch).reduce_scatter(4, 8000), (LinkWork{.steps = 1, .bytes = 8000}));
}

TEST(LinkModel, Exchanges) {
  EXPECT_EQ(of(LinkForm::kRing).all_to_all(4, 900), (LinkWork{.steps = 3, .bytes = 900}));
  EXPECT_EQ(of(LinkForm::kDirect).all_to_all(4, 900), (LinkWork{.steps = 1, .bytes = 900}));
  EXPECT_EQ(of(LinkForm::kRing).broadcast(4, 900), (LinkWork{.steps = 3, .bytes = 900}));
  EXPECT_EQ(of(LinkForm::kDirect).broadcast(4, 900), (LinkWork{.steps = 1, .bytes = 2700}));
  EXPECT_EQ(of(LinkForm::kSwitch).broadcast(4, 900), (LinkWork{.steps = 1, .bytes = 900}));
}

}  // namespace
}  // namespace ingot
