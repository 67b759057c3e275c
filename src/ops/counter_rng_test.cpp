#include "ops/counter_rng.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace ingot {
namespace {

TEST(CounterRng, KnownNumbers) {
  // SplitMix64 as published, seed 1234567.
  const uint64_t published[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
                                16408922859458223821u};
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(CounterRng(1234567).bits(i), published[i]);
  // The key: computed with another program. A change here changes every seeded answer.
  EXPECT_EQ(CounterRng(0, 0, 0, Draw::kToken).bits(0), 0x2130748aaac80268u);
  EXPECT_EQ(CounterRng(42, 0, 7, Draw::kToken).bits(151935), 0x9663f0ac745dee34u);
  EXPECT_EQ(CounterRng(42, 1, 7, Draw::kToken).bits(0), 0x2e84bdd53c0c7101u);
  EXPECT_EQ(CounterRng(42, 0, 7, Draw::kXtc).bits(0), 0x95a36ff191af1608u);
  EXPECT_EQ(CounterRng(~0ull, 2, 131071, Draw::kToken).bits(0), 0xf75cec05b71f07cfu);
}

TEST(CounterRng, UnitLeavesOutBothEnds) {
  EXPECT_EQ(CounterRng::unit(0), 0x1p-53);
  EXPECT_EQ(CounterRng::unit(~0ull), 1 - 0x1p-53);
  EXPECT_LT(-std::log(-std::log(CounterRng::unit(~0ull))), 37);
  EXPECT_GT(-std::log(-std::log(CounterRng::unit(0))), -4);
}

// Chi-square of `n` numbers in 256 bins, in standard deviations from its mean.
template <class F>
double chi_square_sigma(int n, const F& number) {
  std::vector<double> bins(256);
  for (int i = 0; i < n; ++i) bins[static_cast<size_t>(number(i) * 256)] += 1;
  double chi = 0;
  for (const double b : bins) chi += (b - n / 256.0) * (b - n / 256.0) / (n / 256.0);
  return (chi - 255) / std::sqrt(2 * 255.0);
}

// Along every coordinate of the key, neighbours and the counter: each is uniform.
TEST(CounterRng, UniformAlongEveryCoordinate) {
  constexpr int kN = 200000;
  const auto uniform = [](auto make) { EXPECT_LT(std::fabs(chi_square_sigma(kN, make)), 4.5); };
  uniform([](int i) { return CounterRng(7, 0, 3, Draw::kToken).uniform(static_cast<uint32_t>(i)); });
  uniform([](int i) { return CounterRng(7, 0, i, Draw::kToken).uniform(11); });
  uniform([](int i) { return CounterRng(7, i, 3, Draw::kToken).uniform(11); });
  uniform([](int i) { return CounterRng(static_cast<uint64_t>(i), 0, 3, Draw::kToken).uniform(11); });
  uniform([](int i) { return CounterRng(7, 0, i, Draw::kXtc).uniform(0); });
  // Differences of neighbours, modulo 1: no correlation.
  uniform([](int i) {
    const double d = CounterRng(7, 0, i, Draw::kToken).uniform(5) - CounterRng(7, 0, i + 1, Draw::kToken).uniform(5);
    return d - std::floor(d);
  });
  uniform([](int i) {
    const CounterRng rng(static_cast<uint64_t>(i), 0, 0, Draw::kToken);
    const double d = rng.uniform(0) - rng.uniform(1);
    return d - std::floor(d);
  });
}

TEST(CounterRng, EveryBitOfTheKeyMatters) {
  double changed = 0;
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t a = CounterRng(1, 0, 0, Draw::kToken).bits(9);
    const uint64_t b = CounterRng(1ull ^ (1ull << bit), 0, 0, Draw::kToken).bits(9);
    changed += std::popcount(a ^ b);
  }
  EXPECT_NEAR(changed / 64, 32, 3);
}

}  // namespace
}  // namespace ingot
