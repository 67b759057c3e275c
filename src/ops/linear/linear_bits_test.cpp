// Bit for bit, for every format and every set of kernels: what a linear gives for a row depends neither on the rows
// beside it nor on the kernel that their number chooses.
#include <algorithm>
#include <map>

#include "matmul/cpu/panel_kernels.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;
using test::TestWeight;

// Columns [0, w.cols) of rows [first, first + rows) of x, by `threads`.
std::vector<float> values(Buffer& x, const TestWeight& w, int64_t first, int64_t rows, int threads) {
  Buffer some(rows, x.cols()), out(rows, w.weight().rows);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < x.cols(); ++c) some.at(t, c) = x.at(first + t, c);
  return test::cpu_values(test::linear(some, w.weight(), out), out, threads);
}

// All rows of x at once, and then one, two, three … of them at a time.
void check_rows_alone(Random& random, const TestWeight& w, int64_t rows) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << w.weight().cols);
  const int64_t outputs = w.weight().rows;
  Buffer x(rows, w.weight().cols);
  x.fill_outliers(random);
  test::for_each_kernels([&] {
    const std::vector<float> together = values(x, w, 0, rows, 2);
    for (int64_t first = 0, n = 1; first < rows; first += n, ++n) {
      n = std::min(n, rows - first);
      test::expect_same_bits(values(x, w, first, n, 1),
                             {together.begin() + first * outputs, together.begin() + (first + n) * outputs},
                             std::to_string(n) + " rows from " + std::to_string(first));
    }
  });
}

// The least multiple of the format's block that is at least `cols`.
int64_t whole_blocks(Format format, int64_t cols) {
  const int64_t block = format_whole_rows(format) ? 32 : std::max<int64_t>(format_block(format), 32);
  return (cols + block - 1) / block * block;
}

TEST(LinearBits, RowsAloneAreRowsTogether) {
  Random random(8);
  for (Format format : test::all_formats()) {
    SCOPED_TRACE(format_name(format));
    const TestWeight w(random, format, 101, whole_blocks(format, 160));
    for (int64_t rows : {29, 64, 97}) check_rows_alone(random, w, rows);
  }
}

// Rows that are longer than what some sets expand at once, more of them than they take for few, and panels without a
// neighbour.
TEST(LinearBits, LongRowsAloneAreRowsTogether) {
  Random random(12);
  for (Format format : test::all_formats()) {
    SCOPED_TRACE(format_name(format));
    const TestWeight w(random, format, 75, whole_blocks(format, 1280));
    for (int64_t rows : {53, 97}) check_rows_alone(random, w, rows);
  }
  check_rows_alone(random, TestWeight(random, Format::kQ4_0, 37, 1376), 97);
  check_rows_alone(random, TestWeight(random, Format::kINT4, 37, 1376), 97);  // a last group that is short
  for (Format format : {Format::kF16, Format::kBF16})
    check_rows_alone(random, TestWeight(random, format, 37, 1031), 15);
}

// The sets of kernels with fma agree bit for bit, but for weights of 16 bits, which each multiplies as its instructions
// do, and where one reads x in blocks of 128 and another in blocks of 32.
TEST(LinearBits, SetsWithFmaAgree) {
  Random random(9);
  for (Format format : test::all_formats()) {
    SCOPED_TRACE(format_name(format));
    const TestWeight w(random, format, 37, whole_blocks(format, 352));
    const PanelKind kind = panels_of(w.weight()).kind;
    if (kind == PanelKind::kF16 || kind == PanelKind::kBF16) continue;
    for (int64_t rows : {1, 7, 64}) {
      Buffer x(rows, w.weight().cols);
      x.fill_outliers(random);
      std::map<bool, std::vector<float>> want;  // of either size of block
      test::for_each_kernels([&] {
        if (std::string(cpu::kernels().name) == "baseline") return;
        const std::vector<float> got = values(x, w, 0, rows, 1);
        const auto [first, fresh] = want.try_emplace(cpu::kernels().panels->coarse(kind), got);
        if (!fresh) test::expect_same_bits(got, first->second, std::to_string(rows) + " rows");
      });
    }
  }
}

}  // namespace
}  // namespace ingot
