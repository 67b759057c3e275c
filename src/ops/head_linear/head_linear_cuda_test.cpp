#include "matmul/cuda/cuda_blas.h"
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

// Many rows of bf16 by the library, where the machine has it; else by own tiles.
TEST(CudaHeadLinear, ByLibrary) {
  INGOT_NEEDS_DEVICE();
  constexpr int kHeads = 3, kInputs = 128, kOutputs = 80, kRows = 21;
  std::string why;
  const std::unique_ptr<cuda::Blas> blas = cuda::Blas::load(&why);
  for (const int tail : {0, 8}) {
    Random random(3);
    const TestWeight weight(random, Format::kBF16, int64_t{kHeads} * kOutputs, kInputs);
    const int64_t x_cols = int64_t{kHeads} * (kInputs + tail), out_cols = int64_t{kHeads} * (kOutputs + tail);
    Buffer x(kRows, x_cols, kTokenRows, x_cols, DType::kBF16), out(kRows, out_cols, kTokenRows, out_cols, DType::kBF16);
    Buffer x32(kRows, x_cols), out32(kRows, out_cols);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < x_cols; ++i) {
        const uint16_t bits = f32_to_bf16(random.normal());
        x.tensor().row<uint16_t>(r)[i] = bits;
        x32.at(r, i) = bf16_to_f32(bits);
      }
    HeadLinear op{.x = x32.tensor(), .weight = weight.weight(), .out = out32.tensor(), .heads = kHeads, .tail = tail};
    const Batch batch = rows_batch(kRows);
    run_ref(op, batch);
    op.x = x.tensor();
    op.out = out.tensor();
    DeviceRig rig(batch, {.more_rows = 3});
    rig.run(op, 1, [&](cuda::Ctx& ctx, const HeadLinear&) { ctx.blas = blas.get(); });
    out.expect_intact();
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < out_cols; ++i) {
        const float want = out32.at(r, i);
        ASSERT_NEAR(bf16_to_f32(out.tensor().row<uint16_t>(r)[i]), want, 0x1p-7 * std::fabs(want) + 0x1p-6)
            << r << ", " << i;
      }
  }
}

}  // namespace
}  // namespace ingot
