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

// The same where the second is a GLU.
void check_linked_glu(Random& random, int rows) {
  SCOPED_TRACE(testing::Message() << rows << " rows");
  const int64_t cols = 64, n = 96, m = 41;
  const TestWeight a(random, Format::kBF16, n, cols), norm(random, Format::kF32, 1, n),
      gate(random, Format::kBF16, m, n, 0.1f), up(random, Format::kBF16, m, n, 0.1f);
  Buffer x(rows, cols), middle(rows, n), normed(rows, n), out(rows, m), want(rows, m), g(rows, m), u(rows, m),
      unused(rows, m);
  x.fill([&] { return random.normal(); });
  const Batch batch = rows_batch(rows);
  const Linear first = plain(x, a, middle);
  Linear second = plain(middle, gate, out);
  second.n_parts = 2;
  second.parts[1].weight = up.weight();
  second.parts[1].out = unused.tensor();
  second.glu = ActivationKind::kSilu;
  second.input.weight = norm.weight();
  second.input.eps = 1e-5f;
  const bool done = DeviceRig(batch).run_linked(first, second);
  if (cuda::is_emulated()) {
    EXPECT_TRUE(done);
  }
  second.parts[0].out = want.tensor();
  run_ref(second, batch);
  run_ref(RmsNorm{.x = middle.tensor(), .weight = norm.weight(), .out = normed.tensor(), .width = n, .eps = 1e-5f},
          batch);
  run_ref(plain(normed, gate, g), batch);
  run_ref(plain(normed, up, u), batch);
  const ProductError gate_error(normed, gate, true), up_error(normed, up, true);
  // The slope of the activation is at most 1.13, and |f(x)| ≤ |x|. Many rows are rounded to bf16 between.
  const auto tolerance = [&](int64_t t, int64_t i, double want_value) {
    const double of_gate = std::fabs(g.at(t, i)), of_up = std::fabs(u.at(t, i));
    const double eg = gate_error.at(t, i) + kBf16 * (of_gate + 8), eu = up_error.at(t, i) + kBf16 * (of_up + 8);
    return 1.13 * eg * (of_up + eu) + of_gate * eu + 16 * kEps * std::fabs(want_value);
  };
  expect_near(out.values(), want.values(), m, tolerance, "out");
}

TEST(CudaLinear, NormBeforeAGatedUnit) {
  INGOT_NEEDS_DEVICE();
  Random random(18);
  for (const int rows : {1, 8, 9, 15, 16, 17, 32, 33}) check_linked_glu(random, rows);
}

TEST(CudaLinear, NormsBetweenTwo) {
  INGOT_NEEDS_DEVICE();
  Random random(17);
  for (const int rows : {1, 3, 8, 9, 15, 16, 17, 32}) {
    check_linked(random, rows, 64, 40, true);
    check_linked(random, rows, 96, 33, true);
  }
  check_linked(random, 8, 32, 50, true);
  check_linked(random, 2, 45, 40, false);  // columns that no chunk ends with
  check_linked(random, 33, 96, 40, true);  // linked, but not for so many rows
}

}  // namespace
}  // namespace ingot
