#include "ops/ops_test_support.h"
#include "ops/sample/argmax_cpu.h"

namespace ingot {
namespace {

using namespace test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Element by element.
int32_t plain_argmax(const std::vector<float>& row) {
  size_t best = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    const bool first_number = row[best] != row[best] && row[i] == row[i];
    if (first_number || row[i] > row[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

int32_t argmax_of(const std::vector<float>& row) {
  const int32_t got = cpu::argmax_row(row.data(), static_cast<int64_t>(row.size()));
  EXPECT_EQ(got, plain_argmax(row));
  return got;
}

TEST(Argmax, MatchesReference) {
  for (const size_t cols : {1u, 63u, 100u, 8193u, 10000u, 151936u, 262144u}) {
    Random random(cols);
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<float> row(cols);
      // Few different values: ties everywhere.
      for (float& x : row) x = static_cast<float>(random.below(50));
      argmax_of(row);
      for (float& x : row) x = random.outlier();
      argmax_of(row);
      for (size_t c = 0; c < cols; c += 37) row[c] = kNan;
      argmax_of(row);
    }
  }
}

TEST(Argmax, TiesNanAndInfinities) {
  EXPECT_EQ(argmax_of({1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax_of({-0.0f, 0.0f}), 0);
  EXPECT_EQ(argmax_of({kNan, -1, kNan, -0.5f}), 3);
  EXPECT_EQ(argmax_of({kNan, -kInf}), 1);
  EXPECT_EQ(argmax_of({kNan, kNan}), 0);
  EXPECT_EQ(argmax_of({-kInf, -kInf}), 0);
  EXPECT_EQ(argmax_of({1, kInf, kInf}), 1);
  std::vector<float> far(5000, -kInf);
  EXPECT_EQ(argmax_of(far), 0);
  far[4999] = -1e38f;
  EXPECT_EQ(argmax_of(far), 4999);
}

}  // namespace
}  // namespace ingot
