// Parts of one op whose formats ask for different things of x, with rows longer than what sets take at once.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "ops/linear/linear.h"
#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;
using test::TestWeight;

std::vector<float> values_of(const Linear& op, Buffer& out) {
  out.poison();
  test::run_cpu(op, test::rows_batch(static_cast<int>(out.rows())), 2);
  out.expect_intact();
  return out.values();
}

// Scales alone, scales and sums, those of halves, and a scale for each 128 values: each part is what it is alone.
TEST(Linear, PartsThatAskForDifferentFields) {
  Random random(31);
  constexpr int64_t kCols = 1280;
  for (const auto& formats : {std::vector{Format::kQ4_0, Format::kQ4_1, Format::kQ6_K},
                              std::vector{Format::kQ5_0, Format::kQ2_K, Format::kINT4},
                              std::vector{Format::kQ8_0, Format::kINT8, Format::kQ4_K},
                              std::vector{Format::kBF16, Format::kF16, Format::kQ4_0}}) {
    for (int64_t rows : {5, 20, 31}) {
      SCOPED_TRACE(rows);
      Buffer x(rows, kCols), all(rows, 3 * 40);
      x.fill_outliers(random);
      Linear fused;
      fused.x = x.tensor();
      fused.n_parts = 3;
      std::deque<TestWeight> weights;  // they do not move
      for (Format format : formats) weights.emplace_back(random, format, 40, kCols);
      for (size_t p = 0; p < 3; ++p) {
        fused.parts[p].weight = weights[p].weight();
        fused.parts[p].out = all.columns(static_cast<int64_t>(p) * 40, 40);
      }
      test::for_each_kernels([&] {
        const std::vector<float> got = values_of(fused, all);
        for (size_t p = 0; p < 3; ++p) {
          Buffer out(rows, 40);
          Linear one;
          one.x = x.tensor();
          one.n_parts = 1;
          one.parts[0].weight = weights[p].weight();
          one.parts[0].out = out.tensor();
          const std::vector<float> want = values_of(one, out);
          for (size_t i = 0; i < want.size(); ++i)
            ASSERT_EQ(got[i / 40 * 120 + p * 40 + i % 40], want[i]) << format_name(formats[p]) << " " << i;
        }
      });
    }
  }
}

}  // namespace
}  // namespace ingot
