#include "ops/rope/rope.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;
using test::Random;

struct Case {
  int head_dim, rotary_dim;
  bool interleaved;
};

constexpr Case kCases[] = {{64, 64, false}, {64, 64, true}, {80, 32, false}, {80, 32, true},
                           {6, 2, false},   {2, 2, true},   {10, 10, false}, {256, 64, false}};

TEST(Rope, CpuMatchesRef) {
  Random random(1);
  for (const Case& c : kCases)
    for (int rows : {1, 63, 65}) {
      Buffer q(rows, 3 * c.head_dim, kTokenRows, 3 * c.head_dim + 5), k(rows, c.head_dim), table(rows, c.rotary_dim);
      q.fill_outliers(random);
      k.fill_outliers(random);
      table.fill([&] { return static_cast<float>(2 * random.uniform() - 1); });
      const Rope op{.q = q.tensor(),
                    .k = k.tensor(),
                    .table = table.tensor(),
                    .head_dim = c.head_dim,
                    .interleaved = c.interleaved};
      // The same three operations for each value, whichever version.
      test::expect_cpu_matches_ref(op, test::rows_batch(rows), {}, test::exact(), {&q, &k});
    }
}

// A quarter turn swaps the two of a pair; what lies behind rotary_dim stays.
TEST(Rope, PairsOfBothLayouts) {
  for (bool interleaved : {false, true}) {
    for (bool use_ref : {false, true}) {
      Buffer q(1, 6), k(1, 6), table(1, 4);
      for (int i = 0; i < 6; ++i) q.at(0, i) = k.at(0, i) = static_cast<float>(i + 1);
      const float quarter[] = {0, 1, 1, 0};  // cos 0, cos 1, sin 0, sin 1: a quarter turn, then none
      for (int i = 0; i < 4; ++i) table.at(0, i) = quarter[i];
      const Rope op{
          .q = q.tensor(), .k = k.tensor(), .table = table.tensor(), .head_dim = 6, .interleaved = interleaved};
      use_ref ? test::run_ref(op, test::rows_batch(1)) : test::run_cpu(op, test::rows_batch(1));
      const std::vector<float> want =
          interleaved ? std::vector<float>{-2, 1, 3, 4, 5, 6} : std::vector<float>{-3, 2, 1, 4, 5, 6};
      EXPECT_EQ(q.values(), want);
      EXPECT_EQ(k.values(), want);
    }
  }
}

}  // namespace
}  // namespace ingot
