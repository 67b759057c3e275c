#include "ops/head_linear/head_linear.h"

#include "ops/linear/linear_test_support.h"

namespace ingot {
namespace {

using namespace test;

struct Sizes {
  int heads, inputs, outputs, tail;
};

// Each head's rows of x alone: what a linear with the head's weight reads.
class Heads {
 public:
  Heads(const Sizes& s, Format format, int rows)
      : s_(s),
        random_(7),
        weight_(random_, format, int64_t{s.heads} * s.outputs, s.inputs),
        x_(rows, int64_t{s.heads} * (s.inputs + s.tail)),
        out_(rows, int64_t{s.heads} * (s.outputs + s.tail)) {
    x_.fill([&] { return random_.normal(); });
  }
  HeadLinear op() {
    return {.x = x_.tensor(), .weight = weight_.weight(), .out = out_.tensor(), .heads = s_.heads, .tail = s_.tail};
  }
  // Of x and W of unit variance, whatever the kernel rounds x to: int8 at worst.
  void check(bool exact_x) {
    const Batch batch = rows_batch(static_cast<int>(x_.rows()));
    const double step = exact_x ? 64 * kEps : 0x1p-7;
    double largest = 0;
    for (int64_t n = 0; n < weight_.weight().rows; ++n)
      for (const float w : weight_.row(n)) largest = std::max(largest, std::fabs(static_cast<double>(w)));
    const double bound = 8 * largest * step * std::sqrt(s_.inputs) + 4 * kEps;
    expect_cpu_matches_ref(op(), batch, {&out_}, [=](int64_t, int64_t, double) { return bound; });
    for (int64_t t = 0; t < x_.rows(); ++t)
      for (int h = 0; h < s_.heads; ++h)
        for (int c = 0; c < s_.tail; ++c)
          EXPECT_EQ(out_.at(t, h * (s_.outputs + s_.tail) + s_.outputs + c),
                    x_.at(t, h * (s_.inputs + s_.tail) + s_.inputs + c));
  }
  std::vector<float> run(int rows) {
    out_.poison();
    run_cpu(op(), rows_batch(rows), 2);
    std::vector<float> all = out_.values();
    all.resize(static_cast<size_t>(rows * out_.cols()));
    return all;
  }

 private:
  Sizes s_;
  Random random_;
  TestWeight weight_;
  Buffer x_, out_;
};

TEST(HeadLinear, MatchesReference) {
  for (const Format format :
       {Format::kF32, Format::kBF16, Format::kF16, Format::kF8_E4M3, Format::kQ8_0, Format::kQ4_K})
    for (const Sizes& s : {Sizes{4, 256, 32, 8}, Sizes{3, 512, 16, 0}, Sizes{33, 256, 48, 4}})
      for (const int rows : {1, 5, 40}) {
        SCOPED_TRACE(testing::Message() << format_name(format) << ", " << s.heads << " heads, " << rows << " rows");
        Heads(s, format, rows).check(format == Format::kF32);
      }
}

// Heads that are no whole panels are read as they are published.
TEST(HeadLinear, OddHeads) {
  for (const Format format : {Format::kF32, Format::kBF16})
    for (const Sizes& s : {Sizes{4, 16, 24, 8}, Sizes{2, 24, 5, 3}, Sizes{1, 7, 1, 0}})
      for (const int rows : {1, 9}) Heads(s, format, rows).check(format == Format::kF32);
}

TEST(HeadLinear, FewerRowsHaveTheSameBits) {
  for (const Format format : {Format::kF32, Format::kBF16, Format::kQ8_0}) {
    Heads heads({20, 256, 32, 8}, format, 70);
    const std::vector<float> all = heads.run(70);
    for (const int rows : {1, 7, 30}) {
      const std::vector<float> few = heads.run(rows);
      expect_same_bits(few, std::vector<float>(all.begin(), all.begin() + std::ssize(few)), "rows");
    }
  }
}

}  // namespace
}  // namespace ingot
