#include "ops/argmax/argmax.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

int32_t argmax_of(const std::vector<float>& row) {
  const int64_t n = static_cast<int64_t>(row.size());
  Buffer x(1, n, kLogitRows), out(1, 1, kLogitRows, 0, DType::kI32), ref_out(1, 1, kLogitRows, 0, DType::kI32);
  for (int64_t i = 0; i < n; ++i) x.at(0, i) = row[static_cast<size_t>(i)];
  run_cpu(Argmax{x.tensor(), out.tensor()}, rows_batch(1));
  run_ref(Argmax{x.tensor(), ref_out.tensor()}, rows_batch(1));
  EXPECT_EQ(out.i32(0, 0), ref_out.i32(0, 0));
  return out.i32(0, 0);
}

TEST(Argmax, MatchesReference) {
  for (const RowShape& shape : {RowShape{1, 1}, {3, 63}, {3, 100}, {20, 8193}, {7, 10000}, {2, 151936}, {1, 262144}}) {
    Random random(static_cast<uint64_t>(shape.cols));
    Buffer x(shape.rows, shape.cols, kLogitRows, shape.cols + 5);
    Buffer out(shape.rows, 1, kLogitRows, 3, DType::kI32);
    // Few different values: ties everywhere.
    x.fill([&] { return static_cast<float>(random.below(50)); });
    expect_cpu_matches_ref(Argmax{x.tensor(), out.tensor()}, rows_batch(shape.rows), {&out}, exact());
    x.fill_outliers(random);
    for (int64_t c = 0; c < shape.cols; c += 37) x.at(0, c) = kNan;
    expect_cpu_matches_ref(Argmax{x.tensor(), out.tensor()}, rows_batch(shape.rows), {&out}, exact());
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
