#include "ops/top_k/top_k.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void expect_top_k_matches(Buffer& x, int64_t k, const std::string& what) {
  SCOPED_TRACE(what + ", k " + std::to_string(k) + " of " + std::to_string(x.cols()));
  Buffer values(x.rows(), k, kLogitRows, k + 2), ids(x.rows(), k, kLogitRows, k + 1, DType::kI32);
  expect_cpu_matches_ref(TopK{x.tensor(), values.tensor(), ids.tensor()}, rows_batch(static_cast<int>(x.rows())),
                         {&values, &ids}, exact());
}

TEST(TopK, MatchesReference) {
  for (const int64_t cols : {1, 15, 16, 63, 100, 8193, 10000, 151936}) {
    Random random(static_cast<uint64_t>(cols));
    Buffer x(cols < 1000 ? 20 : cols < 100000 ? 9 : 1, cols, kLogitRows, cols + 5);
    for (const int64_t k : {int64_t{1}, int64_t{5}, int64_t{40}, cols / 3, cols - 1, cols}) {
      if (k < 1 || k > cols || (cols > 100000 && k > 40 && k != cols / 3)) continue;
      x.fill_outliers(random);
      expect_top_k_matches(x, k, "outliers");
      x.fill([&] { return static_cast<float>(random.below(7)); });
      expect_top_k_matches(x, k, "ties");
      float rising = -1e3f;
      x.fill([&] { return rising += 0.5f; });
      expect_top_k_matches(x, k, "rising");
      x.fill([&] { return rising -= 0.5f; });
      expect_top_k_matches(x, k, "falling");
      x.fill([&] { return random.below(3) == 0 ? kNan : random.below(3) == 0 ? -kInf : random.normal(); });
      expect_top_k_matches(x, k, "NaN and -inf");
    }
  }
}

TEST(TopK, OrderOfEqualsZerosAndNan) {
  Buffer x(1, 7, kLogitRows), values(1, 7, kLogitRows), ids(1, 7, kLogitRows, 0, DType::kI32);
  const float row[] = {kNan, -0.0f, 2, kNan, 0.0f, 2, -kInf};
  for (int64_t i = 0; i < 7; ++i) x.at(0, i) = row[i];
  run_cpu(TopK{x.tensor(), values.tensor(), ids.tensor()}, rows_batch(1));
  const int32_t want[] = {2, 5, 1, 4, 6, 0, 3};
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(ids.i32(0, i), want[i]) << i;
}

}  // namespace
}  // namespace ingot
