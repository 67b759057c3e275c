#include "ops/cuda/cuda_test_support.h"

namespace ingot {
namespace {

using namespace test;

// Against the reference, few rows and many, in a larger bucket.
TEST(CudaHeadLinear, MatchesReference) {
  INGOT_NEEDS_DEVICE();
  struct Sizes {
    int heads, inputs, outputs, tail, rows;
  };
  for (const Format format : {Format::kF32, Format::kBF16, Format::kF16, Format::kF8_E4M3, Format::kQ8_0, Format::kQ4_K,
                              Format::kQ6_K, Format::kQ2_K})
    for (const Sizes& s : {Sizes{3, 256, 40, 8, 2}, Sizes{2, 256, 70, 3, 21}, Sizes{2, 256, 64, 0, 70},
                           // Packed, in tiles of each size and several of them.
                           Sizes{3, 256, 144, 8, 1}, Sizes{2, 256, 80, 16, 8}, Sizes{3, 256, 32, 8, 11},
                           Sizes{2, 512, 144, 8, 64}, Sizes{1, 256, 16, 0, 100}, Sizes{2, 256, 32, 8, 300}}) {
      SCOPED_TRACE(testing::Message() << format_name(format) << ", " << s.rows << " rows");
      Random random(3);
      const TestWeight weight(random, format, int64_t{s.heads} * s.outputs, s.inputs);
      Buffer x(s.rows, int64_t{s.heads} * (s.inputs + s.tail)), out(s.rows, int64_t{s.heads} * (s.outputs + s.tail));
      x.fill([&] { return random.normal(); });
      const HeadLinear op{
          .x = x.tensor(), .weight = weight.weight(), .out = out.tensor(), .heads = s.heads, .tail = s.tail};
      const Batch batch = rows_batch(s.rows);
      run_ref(op, batch);
      const std::vector<float> want = out.values();
      double largest = 0;
      for (int64_t n = 0; n < weight.weight().rows; ++n)
        for (const float w : weight.row(n)) largest = std::max(largest, std::fabs(static_cast<double>(w)));
      for (const bool invariant : {false, true}) {
        // Packed weights meet rows in bf16, many of them rounded themselves.
        const bool exact = format == Format::kF32 || s.outputs % 16 != 0 || invariant;
        const double bound = 8 * largest * (exact ? 16 * kEps : 0x1p-8) * std::sqrt(s.inputs) + 4 * kEps;
        out.poison();
        DeviceRig rig(batch, {.more_rows = 3, .batch_invariant = invariant});
        rig.run(op);
        out.expect_intact();
        expect_near(
            out.values(), want, out.cols(), [=](int64_t, int64_t, double) { return bound; }, "device");
      }
    }
}

}  // namespace
}  // namespace ingot
