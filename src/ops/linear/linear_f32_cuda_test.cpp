// Weights of F32 on the device: the sums of one order bit for bit, whatever the number of rows, whichever kernel, and
// wherever K is cut.
#include <cmath>

#include "matmul/cuda/sum_order.h"
#include "ops/linear/linear_cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

float sum_of(Buffer& x, int64_t row, const std::vector<float>& w) {
  float total = 0, sum = 0;
  for (size_t k = 0; k < w.size(); ++k) {
    if (k % cuda::kSumCols == 0) total += sum, sum = 0;
    sum = std::fmaf(x.at(row, static_cast<int64_t>(k)), w[k], sum);
  }
  return total + sum;
}

// `apart`: values between two rows of x; not a multiple of four: no tiles can read it. Many multiprocessors: K is cut.
struct F32Case {
  int rows;
  int64_t n, cols, apart = 0;
  int multiprocessors = 0;
  int arch = 0;
};

void check_bits(const F32Case& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " rows, N " << c.n << ", K " << c.cols << ", apart " << c.apart << ", "
                                  << c.multiprocessors << " multiprocessors");
  Random random(static_cast<uint64_t>(c.rows * 1000 + c.n));
  const TestWeight w(random, Format::kF32, c.n, c.cols), bias(random, Format::kF32, 1, c.n);
  Buffer x(c.rows, c.cols, kTokenRows, c.cols + c.apart), residual(c.rows, c.n), out(c.rows, c.n, kTokenRows, c.n + 5);
  x.fill_outliers(random);
  residual.fill_outliers(random);
  std::vector<float> want;
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t n = 0; n < c.n; ++n)
      want.push_back((sum_of(x, r, w.row(n)) + bias.row(0)[static_cast<size_t>(n)]) + residual.at(r, n));
  Linear op = plain(x, w, out);
  op.residual = residual.tensor();
  op.parts[0].bias = bias.weight();
  const Batch batch = rows_batch(c.rows);
  DeviceRig rig(batch, {.arch = c.arch, .multiprocessors = c.multiprocessors});
  for (int run = 0; run < 2; ++run) {
    out.poison();
    rig.run(op);
    expect_same_bits(out.values(), want, "out");
  }
  out.expect_intact();
}

TEST(CudaLinearF32, OneOrderOfSumsForEveryKernel) {
  INGOT_NEEDS_DEVICE();
  for (const int rows : {1, 8, 9, 33, 70}) {
    check_bits({rows, 67, 132});
    check_bits({rows, 67, 388, 4, 20});
    check_bits({rows, 67, 388, 3});
  }
  check_bits({2, 300, 4});
  check_bits({20, 70, 1160, 0, 24});  // more slices than are taken at once
  check_bits({100, 67, 388, 0, 40});
  check_bits({300, 130, 260, 0, 20});
  check_bits({300, 130, 36, 8});
  check_bits({40, 67, 388, 0, 20, 80});
}

// What is no number stays in its row and its column.
TEST(CudaLinearF32, NotANumberStaysWhereItIs) {
  INGOT_NEEDS_DEVICE();
  const int rows = 40;
  Random random(5);
  const TestWeight w(random, Format::kF32, 40, 256);
  Buffer x(rows, 256), out(rows, 40);
  x.fill_outliers(random);
  x.at(33, 200) = NAN;
  const Batch batch = rows_batch(rows);
  DeviceRig(batch, {.multiprocessors = 16}).run(plain(x, w, out));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < 40; ++n) EXPECT_EQ(std::isnan(out.at(r, n)), r == 33) << r << ' ' << n;
}

}  // namespace
}  // namespace ingot
