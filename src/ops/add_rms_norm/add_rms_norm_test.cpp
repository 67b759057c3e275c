#include "ops/add_rms_norm/add_rms_norm.h"

#include "ops/add/add.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

class AddRmsNormTest : public testing::TestWithParam<RowShape> {};

TEST_P(AddRmsNormTest, MatchesReferenceAndTheTwoOps) {
  const auto [rows, cols] = GetParam();
  Random random(static_cast<uint64_t>(cols));
  const Batch batch = rows_batch(rows);
  const std::vector<float> weight = normal_values(random, cols);
  Buffer a(rows, cols, kTokenRows, cols + 5), b(rows, cols), sum(rows, cols, kTokenRows, cols + 1), out(rows, cols);
  a.fill_outliers(random);
  b.fill_outliers(random);
  const AddRmsNorm op{.a = a.tensor(),
                      .b = b.tensor(),
                      .weight = f32_weight(weight),
                      .sum = sum.tensor(),
                      .out = out.tensor(),
                      .eps = 1e-6f};
  expect_cpu_matches_ref(op, batch, {&sum, &out}, relative(static_cast<double>(cols) / 32 + 8));
  Buffer plain_sum(rows, cols), plain(rows, cols);
  run_cpu(Add{a.tensor(), b.tensor(), plain_sum.tensor()}, batch);
  run_cpu(RmsNorm{.x = plain_sum.tensor(), .weight = op.weight, .out = plain.tensor(), .width = cols, .eps = op.eps},
          batch);
  expect_same_bits(sum.values(), plain_sum.values(), "sum");
  expect_same_bits(out.values(), plain.values(), "norm");
  for (Buffer* target : {&a, &b}) {
    const std::vector<std::byte> saved = target->save();
    AddRmsNorm in_place = op;
    in_place.sum = target->tensor();
    out.poison();
    run_cpu(in_place, batch, 2);
    expect_same_bits(target->values(), plain_sum.values(), "sum in place");
    expect_same_bits(out.values(), plain.values(), "norm with the sum in place");
    target->restore(saved);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AddRmsNormTest, testing::ValuesIn(kRowShapes));

}  // namespace
}  // namespace ingot
