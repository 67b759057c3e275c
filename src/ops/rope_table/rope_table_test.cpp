#include "ops/rope_table/rope_table.h"

#include "ops/ops_test_support.h"

namespace ingot {
namespace {

using test::Buffer;

TEST(RopeTable, CpuMatchesRef) {
  for (int half : {1, 16, 33, 64}) {
    for (float magnitude : {1.0f, 1.1386294f}) {
      const Batch batch = test::make_batch({{5, 0}, {1, 131071}, {64, 8191}});
      Buffer out(batch.n_rows, 2 * half, kTokenRows, 2 * half + 3);
      RopeTable op{.inv_freq = {}, .magnitude = magnitude, .out = out.tensor()};
      for (int i = 0; i < half; ++i)
        op.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / half)));
      // Two roundings of the function, one of the product.
      test::expect_cpu_matches_ref(op, batch, {&out}, test::relative(3));
    }
  }
}

// The angle is the f32 product: at position 131071 its rounding alone turns by up to 2^-8.
TEST(RopeTable, AngleIsAnF32Product) {
  const Batch batch = test::make_batch({{1, 131071}});
  Buffer out(1, 2);
  const float inv_freq = 0.7f;
  const float angle = 131071.0f * inv_freq;
  for (bool use_ref : {false, true}) {
    out.poison();
    RopeTable op;
    op.magnitude = 2;
    op.out = out.tensor();
    op.inv_freq.assign(1, inv_freq);
    use_ref ? test::run_ref(op, batch) : test::run_cpu(op, batch);
    EXPECT_NEAR(out.at(0, 0), 2 * std::cos(static_cast<double>(angle)), 1e-6);
    EXPECT_NEAR(out.at(0, 1), 2 * std::sin(static_cast<double>(angle)), 1e-6);
  }
}

}  // namespace
}  // namespace ingot
