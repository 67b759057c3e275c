#include "cpu/cpu_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/exp_each.h"

namespace ingot::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The largest error in units of the last place of the true value, over floats spaced evenly in bits
// with both signs.
template <class F, class G>
double max_ulps(F&& got, G&& want, float largest) {
  double worst = 0;
  const uint32_t end = std::bit_cast<uint32_t>(largest);
  for (uint32_t bits = 0; bits <= end; bits += 1009) {
    for (float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      const double exact = want(static_cast<double>(x));
      const float rounded = static_cast<float>(exact);
      if (std::isinf(rounded)) {
        EXPECT_EQ(got(x), rounded) << x;
        continue;
      }
      const double ulp =
          static_cast<double>(std::nextafter(std::fabs(rounded), kInf)) - std::fabs(static_cast<double>(rounded));
      worst = std::max(worst, std::fabs(static_cast<double>(got(x)) - exact) / ulp);
    }
  }
  return worst;
}

TEST(CpuMath, Exp) {
  EXPECT_LE(max_ulps([](float x) { return exp_f32(x); }, [](double x) { return std::exp(x); }, 3e38f), 1.0);
  EXPECT_EQ(exp_f32(-kInf), 0.0f);
  EXPECT_EQ(exp_f32(kInf), kInf);
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(CpuMath, SixteenExpsAreTheSameBits) {
  const std::vector<float> special = {kInf, -kInf, 89.5f, 88.72f, -103.9f, -104.5f, -87.4f, -0.0f, 1e-40f};
  for (uint32_t bits = 0; bits < 0xff800000u; bits += 16 * 40009) {
    float x[16], out[16], sum[16] = {};
    for (uint32_t i = 0; i < 16; ++i) x[i] = std::bit_cast<float>(bits + i * 40009);
    x[bits % 16] = special[bits % special.size()];
    exp_and_sum(x, 0.25f, out, sum);
    for (int i = 0; i < 16; ++i) {
      const float want = exp_f32(x[i] - 0.25f);
      EXPECT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(want)) << x[i];
      EXPECT_EQ(std::bit_cast<uint32_t>(sum[i]), std::bit_cast<uint32_t>(want));
    }
  }
}

TEST(CpuMath, Tanh) {
  EXPECT_LE(max_ulps([](float x) { return tanh_f32(x); }, [](double x) { return std::tanh(x); }, 3e38f), 3.0);
  EXPECT_EQ(tanh_f32(kInf), 1.0f);
  EXPECT_EQ(tanh_f32(-kInf), -1.0f);
  EXPECT_TRUE(std::isnan(tanh_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(CpuMath, Erf) {
  EXPECT_LE(max_ulps([](float x) { return erf_f32(x); }, [](double x) { return std::erf(x); }, 3e38f), 3.0);
  EXPECT_EQ(erf_f32(kInf), 1.0f);
  EXPECT_EQ(erf_f32(-kInf), -1.0f);
  EXPECT_TRUE(std::isnan(erf_f32(std::numeric_limits<float>::quiet_NaN())));
}

// Of |x|: near its zero and in its tail an activation is as exact as 1 + erf(x) is.
template <class G>
void expect_activation(ActivationKind kind, G&& want) {
  for (double x = -90; x <= 90; x += 0.0137) {
    const float f = static_cast<float>(x);
    EXPECT_NEAR(activate(kind, f), want(static_cast<double>(f)), 4 * 0x1p-24 * std::fabs(x)) << x;
  }
  EXPECT_EQ(activate(kind, 0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(activate(kind, std::numeric_limits<float>::quiet_NaN())));
}

TEST(CpuMath, Activations) {
  expect_activation(ActivationKind::kNone, [](double x) { return x; });
  expect_activation(ActivationKind::kSilu, [](double x) { return x / (1 + std::exp(-x)); });
  expect_activation(ActivationKind::kGelu, [](double x) { return x * 0.5 * (1 + std::erf(x * M_SQRT1_2)); });
  expect_activation(ActivationKind::kGeluTanh, [](double x) {
    return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  });
  expect_activation(ActivationKind::kRelu, [](double x) { return std::max(x, 0.0); });
}

// Vector lanes and the scalar tail of a loop agree.
TEST(CpuMath, LoopsGiveTheSameBits) {
  for (ActivationKind kind : {ActivationKind::kSilu, ActivationKind::kGelu, ActivationKind::kGeluTanh}) {
    std::vector<float> x(1003), y(1003);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.021f - 10.0f;
    with_activation(kind, [&](auto f) {
      for (size_t i = 0; i < x.size(); ++i) y[i] = f(x[i]);
    });
    for (size_t i = 0; i < x.size(); ++i) {
      volatile float one = x[i];
      EXPECT_EQ(std::bit_cast<uint32_t>(activate(kind, one)), std::bit_cast<uint32_t>(y[i])) << x[i];
    }
  }
}

}  // namespace
}  // namespace ingot::cpu
