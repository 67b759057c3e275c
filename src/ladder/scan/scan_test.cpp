#include "ladder/scan/scan.h"

#include "ladder/same_bits_test_support.h"

namespace ingot {
namespace {

using namespace test;

TEST(ScanLadder, EveryStep) {
  Random random(1);
  for (const int64_t n : {0, 1, 31, 4096, 8191, 8193, 40003}) {
    SCOPED_TRACE(n);
    Buffer x(1, n, kFixedRows), out(1, n, kFixedRows);
    x.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
    std::vector<double> magnitudes;  // so far
    for (int64_t i = 0; i < n; ++i)
      magnitudes.push_back(std::fabs(static_cast<double>(x.at(0, i))) + (i > 0 ? magnitudes.back() : 0));
    const auto rounding = [&](int64_t, int64_t c, double) { return 2e-6 * magnitudes[static_cast<size_t>(c)]; };
    check_steps(Scan{.x = x.tensor(), .out = out.tensor()}, {.tolerance = rounding});
  }
}

// More tiles than a group has of them: 256 of 8,192 in the last step.
TEST(ScanLadder, ManyGroups) {
  constexpr int64_t kCount = 2200003;
  Buffer x(1, kCount, kFixedRows), out(1, kCount, kFixedRows);
  int i = 0;
  x.fill([&] { return static_cast<float>(++i % 7 - 3); });  // sums are exact
  check_steps(Scan{.x = x.tensor(), .out = out.tensor()}, {});
  Random random(3);
  x.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
  expect_same_bits<Scan>(x, out);
}

// What comes before an infinity or a NaN stays as it is.
TEST(ScanLadder, InfinitiesAndNaN) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> some[] = {{kInf}, {-kInf}, {kInf, -kInf}, {NAN}, {0.0f, -0.0f}};
  for (const std::vector<float>& values : some) {
    constexpr int64_t kCount = 20003;
    Buffer x(1, kCount, kFixedRows), out(1, kCount, kFixedRows);
    size_t i = 0;
    x.fill([&] { return ++i % 9500 == 4711 ? values[i / 9500 % values.size()] : 1.0f; });
    check_steps(Scan{.x = x.tensor(), .out = out.tensor()}, {});
  }
}

}  // namespace
}  // namespace ingot
