#include "ops/embedding/embedding.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;
using test::TestWeight;

void check(Random& random, const TestWeight& table, Embedding::By by, int rows) {
  Batch batch = test::make_batch({{rows, 3}});
  for (int32_t& token : batch.token) token = static_cast<int32_t>(random.below(table.weight().rows));
  batch.token.back() = static_cast<int32_t>(table.weight().rows - 1);
  Buffer out(rows, table.weight().cols, kTokenRows, table.weight().cols + 3);
  test::expect_cpu_matches_ref(Embedding{.table = table.weight(), .out = out.tensor(), .by = by}, batch, {&out},
                               test::exact());
  for (int64_t t = 0; t < rows; ++t) {
    const size_t r = static_cast<size_t>(t);
    const std::vector<float> want = table.row(by == Embedding::By::kToken ? batch.token[r] : batch.position[r]);
    for (int64_t c = 0; c < out.cols(); ++c) ASSERT_EQ(out.at(t, c), want[static_cast<size_t>(c)]) << t;
  }
}

TEST(Embedding, EveryFormat) {
  Random random(1);
  for (Format format : test::all_formats()) {
    SCOPED_TRACE(format_name(format));
    const int64_t block = format_block(format);
    for (int64_t cols : {block, 3 * block}) {
      const TestWeight table(random, format, 70, cols);
      for (int rows : {1, 63, 65}) {
        check(random, table, Embedding::By::kToken, rows);
        check(random, table, Embedding::By::kPosition, rows);
      }
    }
  }
}

TEST(Embedding, VocabularyOf151936) {
  Random random(2);
  check(random, TestWeight(random, Format::kQ8_0, 151936, 32), Embedding::By::kToken, 257);
}

TEST(Embedding, ScalesBesideTheData) {
  Random random(3);
  TestWeight table(random, Format::kF8_E4M3, 40, 70);
  table.add_scales(random, 16, 32);
  check(random, table, Embedding::By::kToken, 33);
}

TEST(Embedding, OutsideTheTableIsRowZero) {
  Random random(4);
  const TestWeight table(random, Format::kF32, 5, 8);
  Batch batch = test::rows_batch(2);
  batch.token = {-1, 5};
  Buffer out(2, 8);
  const Embedding op{.table = table.weight(), .out = out.tensor()};
  test::expect_cpu_matches_ref(op, batch, {&out}, test::exact());
  for (int64_t c = 0; c < 8; ++c) EXPECT_EQ(out.at(0, c), table.row(0)[static_cast<size_t>(c)]);
}

}  // namespace
}  // namespace ingot
