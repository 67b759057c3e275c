// Two linears that follow each other on the device, with the norm that is made on the way from one to the other.
#include "ops/linear/linear_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

// A linear whose rows the next one norms, in place of a residual: n outputs, then m. The second is held against the
// reference over what the first one wrote.
void check_linked(Random& random, int rows, int64_t n, int64_t m, bool linked) {
  SCOPED_TRACE(testing::Message() << rows << " rows, " << n << " and " << m);
  const int64_t cols = 64;
  const TestWeight a(random, Format::kBF16, n, cols), b(random, Format::kBF16, m, n);
  const TestWeight norm(random, Format::kF32, 1, n);
  Buffer x(rows, cols), middle(rows, n), normed(rows, n), out(rows, m), want_middle(rows, n), want(rows, m);
  x.fill_outliers(random);
  middle.fill_outliers(random);
  want_middle.fill([&, i = 0]() mutable { return middle.values()[static_cast<size_t>(i++)]; });
  const Batch batch = rows_batch(rows);
  Linear first = plain(x, a, middle), second = plain(middle, b, out);
  first.residual = middle.tensor();
  second.input.weight = norm.weight();
  second.input.eps = 1e-5f;
  Linear first_ref = first;
  first_ref.residual = first_ref.parts[0].out = want_middle.tensor();
  run_ref(first_ref, batch);
  const bool done = DeviceRig(batch).run_linked(first, second);
  if (cuda::is_emulated()) {
    EXPECT_EQ(done, linked);  // elsewhere it depends on the number of multiprocessors
  }
  const ProductError first_error(x, a, true);
  expect_near(
      middle.values(), want_middle.values(), n,
      [&](int64_t t, int64_t i, double v) { return first_error.at(t, i) + 16 * kEps * (std::fabs(v) + 8); }, "middle");
  second.parts[0].out = want.tensor();
  run_ref(second, batch);
  RmsNorm norm_op{.x = middle.tensor(), .weight = norm.weight(), .out = normed.tensor(), .width = n, .eps = 1e-5f};
  run_ref(norm_op, batch);
  const ProductError error(normed, b, true);
  expect_near(
      out.values(), want.values(), m,
      [&](int64_t t, int64_t i, double v) { return error.at(t, i) + 16 * kEps * std::fabs(v); }, "out");
}

TEST(CudaLinear, NormsBetweenTwo) {
  INGOT_NEEDS_DEVICE();
  Random random(17);
  for (const int rows : {1, 3, 5, 8}) {
    check_linked(random, rows, 64, 40, true);
    check_linked(random, rows, 96, 33, true);
  }
  check_linked(random, 8, 32, 50, true);
  check_linked(random, 2, 45, 40, false);  // columns that no chunk ends with
  check_linked(random, 9, 96, 40, true);   // linked, but not for so many rows
}

}  // namespace
}  // namespace ingot
