#include "ops/expert_linear/expert_linear.h"

#include "ops/expert_linear/expert_linear_test_support.h"
#include "ops/linear/linear.h"

namespace ingot {
namespace {

using namespace test;

// Within the error of int8 rows of x where weights are in panels of integers, of bf16 where they are that.
double error_of(Format format) { return format == Format::kF32 ? 1e-4 : 0.04; }

void check_case(const ExpertCase& c) {
  SCOPED_TRACE(std::string(format_name(c.format)) + ", " + std::to_string(c.rows) + " rows");
  ExpertOperands o(c);
  const Batch batch = rows_batch(c.rows);
  run_ref(o.op, batch);
  Buffer& result = c.sum ? o.out : o.places;
  const std::vector<float> want = result.values();
  double norm = 0;
  for (const float v : want) norm += static_cast<double>(v) * v;
  const double most = error_of(c.format) * 8 * std::sqrt(norm / static_cast<double>(want.size()) + 1e-12);
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    o.places.poison();
    o.out.poison();
    run_cpu(o.op, batch, threads);
    o.places.expect_intact();
    o.out.expect_intact();
    expect_near(result.values(), want, result.cols(), relative(0, most), "cpu against ref");
    if (threads == 1) first = result.values();
    expect_same_bits(result.values(), first, "against 1 thread");
  }
}

TEST(ExpertLinear, MatchesReference) {
  for (const Format format :
       {Format::kF32, Format::kBF16, Format::kQ4_0, Format::kQ4_K, Format::kMXFP4, Format::kNVFP4}) {
    for (const int rows : {1, 3, 40}) {
      const int64_t cols = format == Format::kQ4_K ? 256 : 64;
      check_case({.format = format, .rows = rows, .cols = cols});
      check_case({.format = format, .rows = rows, .cols = cols, .glu = true, .bias = true});
      check_case({.format = format, .rows = rows, .used = 3, .out = 24, .cols = cols, .by_place = true, .sum = true});
    }
  }
  check_case({.rows = 9, .glu = true, .scale = true});
  check_case({.rows = 9, .glu = true, .bias = true, .kind = ActivationKind::kClampedSwiglu});
  check_case({.rows = 5, .count = 3, .used = 3, .bias = true, .by_place = true, .sum = true});
  check_case({.rows = 200, .count = 16, .used = 4, .glu = true});
}

// Experts 0 and 2 are another rank's: their places are left as they are, those of the others have the bits that they
// have where all experts are there, and a row of none adds up to nothing.
TEST(ExpertLinear, ExpertsOfOthersAreLeftOut) {
  const ExpertCase c{.rows = 40, .count = 4, .used = 2, .bias = true, .by_place = true, .sum = true};
  const Batch batch = rows_batch(c.rows);
  for (const bool ref : {false, true}) {
    const auto run = [&](const ExpertLinear& op) { ref ? run_ref(op, batch) : run_cpu(op, batch, 2); };
    ExpertOperands all(c), some(c);
    run(all.op);
    for (int64_t r = 0; r < c.rows; ++r)
      for (int64_t j = 0; j < c.used; ++j) {
        const int32_t e = some.experts.i32(r, j);
        some.experts.i32(r, j) = e % 2 == 1 ? e / 2 : -1;
      }
    std::vector<float> bias;
    const auto* biases = reinterpret_cast<const float*>(some.op.parts[0].bias.data);
    for (const int64_t e : {1, 3}) bias.insert(bias.end(), biases + e * c.out, biases + (e + 1) * c.out);
    std::vector<Weight>& weights = some.op.parts[0].weights;
    weights = {weights[1], weights[3]};
    some.op.parts[0].bias = f32_weight(bias);
    some.op.layer_count = c.count;
    some.places.fill([] { return 0.25f; });
    run(some.op);
    int without = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      std::vector<float> sum(static_cast<size_t>(c.out), 0.0f);
      for (int64_t j = 0; j < c.used; ++j) {
        const bool own = some.experts.i32(r, j) >= 0;
        without += !own;
        for (int64_t i = 0; i < c.out; ++i) {
          const float value = some.places.at(r, j * c.out + i);
          ASSERT_EQ(value, own ? all.places.at(r, j * c.out + i) : 0.25f) << "row " << r;
          if (own) sum[static_cast<size_t>(i)] += some.weights.at(r, j) * value;
        }
      }
      for (int64_t i = 0; i < c.out; ++i) ASSERT_EQ(some.out.at(r, i), sum[static_cast<size_t>(i)]) << "row " << r;
    }
    EXPECT_GT(without, 0);
    EXPECT_LT(without, c.rows * c.used);
    for (int64_t r = 0; r < c.rows; ++r)
      for (int64_t j = 0; j < c.used; ++j) some.experts.i32(r, j) = -1;
    some.out.fill([] { return 0.25f; });
    run(some.op);
    for (const float value : some.out.values()) ASSERT_EQ(value, 0);
  }
}

// A row's bits do not depend on the rows beside it, nor on what they choose.
TEST(ExpertLinear, RowsAloneAreTheSame) {
  for (const Format format : {Format::kF32, Format::kQ4_0, Format::kQ8_0, Format::kQ6_K, Format::kF16, Format::kBF16}) {
    SCOPED_TRACE(format_name(format));
    const ExpertCase c{
        .format = format, .rows = 70, .count = 5, .used = 2, .out = 40, .cols = 512, .by_place = true, .sum = true};
    for_each_kernels([&] {
      ExpertOperands o(c);
      run_cpu(o.op, rows_batch(c.rows), 2);
      for (const int r : {0, 33, 69}) {
        ExpertOperands one(c);
        ExpertLinear op = one.op;
        const std::vector<float> want = row_of(o.out, r);
        op.x.data = reinterpret_cast<std::byte*>(&one.x.at(r, 0));
        op.experts.data = reinterpret_cast<std::byte*>(&one.experts.i32(r, 0));
        op.weights.data = reinterpret_cast<std::byte*>(&one.weights.at(r, 0));
        run_cpu(op, rows_batch(1));
        expect_same_bits(row_of(one.out, 0), want, "row " + std::to_string(r));
      }
    });
  }
}

// What a linear with expert e's weights, scaled or not, gives for row r of x.
std::vector<float> linear_of(ExpertOperands& o, const ExpertCase& c, int r, int64_t j) {
  const int32_t e = o.experts.i32(r, j);
  Buffer x(1, c.cols), out(1, c.out), up(1, c.out);
  for (int64_t k = 0; k < c.cols; ++k)
    x.at(0, k) = o.x.at(r, (c.by_place ? j * c.cols : 0) + k) * (c.scale ? o.weights.at(r, j) : 1.0f);
  Linear linear;
  linear.x = x.tensor();
  linear.n_parts = o.op.n_parts;
  linear.glu = o.op.glu;
  for (size_t p = 0; p < static_cast<size_t>(o.op.n_parts); ++p) {
    linear.parts[p].weight = o.op.parts[p].weights[static_cast<size_t>(e)];
    if (c.bias) {
      linear.parts[p].bias = o.op.parts[p].bias;
      linear.parts[p].bias.data += e * c.out * 4;
      linear.parts[p].bias.cols = c.out;
    }
    linear.parts[p].out = p == 0 ? out.tensor() : up.tensor();
  }
  run_cpu(linear, rows_batch(1));
  return row_of(out, 0);
}

// Each place is bit for bit what a linear with the expert's weights gives for the row, and a row's sum is that of its
// places in their order: in every format that has panels, and in one that has none.
TEST(ExpertLinear, IsTheLinearOfEachExpert) {
  for (const Format format : {Format::kF32, Format::kF16, Format::kBF16, Format::kQ4_0, Format::kQ5_1, Format::kQ8_0,
                              Format::kQ4_K, Format::kQ6_K, Format::kMXFP4, Format::kIQ4_XS}) {
    const ExpertCase cases[] = {
        {.format = format, .rows = 6, .out = 32, .cols = 256, .glu = true, .bias = true},
        {.format = format, .rows = 19, .count = 3, .used = 2, .out = 40, .cols = 256, .by_place = true, .sum = true},
        {.format = format, .rows = 3, .count = 9, .used = 1, .out = 16, .cols = 512, .glu = true, .scale = true},
        {.format = format,
         .rows = 5,
         .out = 24,
         .cols = 256,
         .glu = true,
         .bias = true,
         .kind = ActivationKind::kClampedSwiglu},
    };
    for (const ExpertCase& c : cases) {
      SCOPED_TRACE(std::string(format_name(format)) + ", " + std::to_string(c.rows) + " rows");
      ExpertOperands o(c);
      run_cpu(o.op, rows_batch(c.rows), 2);
      for (int r = 0; r < c.rows; ++r) {
        std::vector<double> sum(static_cast<size_t>(c.out));
        for (int64_t j = 0; j < c.used; ++j) {
          const std::vector<float> want = linear_of(o, c, r, j);
          for (int64_t n = 0; n < c.out; ++n) {
            const float got = o.places.at(r, j * c.out + n);
            ASSERT_EQ(got, want[static_cast<size_t>(n)]) << "row " << r << ", place " << j << ", output " << n;
            sum[static_cast<size_t>(n)] += static_cast<double>(o.weights.at(r, j)) * static_cast<double>(got);
          }
        }
        for (int64_t n = 0; c.sum && n < c.out; ++n) {
          const double want = sum[static_cast<size_t>(n)];
          ASSERT_NEAR(o.out.at(r, n), want, 1e-5 * (1 + std::abs(want))) << "row " << r << ", output " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ingot
