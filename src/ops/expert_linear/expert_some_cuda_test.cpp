// Experts that meet some places, by tiles of up to 16 of them, against the reference. Rows are such that bf16 holds
// them; weights are exact.
#include "ops/cuda/cuda_test_support.h"
#include "ops/expert_linear/expert_linear_test_support.h"

namespace ingot {
namespace {

using namespace test;

// Of the squares: sums of f32 in another order; rows that are scaled are rounded to bf16.
constexpr double kSummed = 1e-11, kRounded = 2.5e-5;

void check_some(const ExpertCase& c) {
  SCOPED_TRACE(testing::Message() << format_name(c.format) << ", " << c.rows << " rows, " << c.count << " experts, N "
                                  << c.out << ", K " << c.cols << (c.glu ? ", glu" : "") << (c.bias ? ", bias" : ""));
  ExpertOperands o(c);
  o.x.fill([random = Random(5)]() mutable { return bf16_to_f32(f32_to_bf16(random.normal())); });
  const Batch batch = rows_batch(c.rows);
  run_ref(o.op, batch);
  Buffer& result = c.sum ? o.out : o.places;
  const std::vector<float> want = result.values();
  o.places.poison();
  o.out.poison();
  DeviceRig rig(batch, {.more_rows = 3});
  rig.run(o.op);
  o.places.expect_intact();
  const std::vector<float> got = result.values();
  double error = 0, squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    squares += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  EXPECT_LE(error, (c.scale ? kRounded : kSummed) * squares);
}

TEST(ExpertSomeCuda, EveryFormat) {
  INGOT_NEEDS_DEVICE();
  for (const Format format :
       {Format::kQ4_0, Format::kQ4_1, Format::kQ5_0, Format::kQ5_1, Format::kQ8_0, Format::kQ2_K, Format::kQ3_K,
        Format::kQ4_K, Format::kQ5_K, Format::kQ6_K, Format::kIQ4_NL, Format::kIQ4_XS, Format::kMXFP4, Format::kNVFP4,
        Format::kINT4, Format::kINT4_ASYM, Format::kINT8, Format::kF8_E4M3, Format::kF8_E5M2}) {
    const int64_t block = format_block(format), cols = block == 1 ? 70 : block == 32 ? 160 : 2 * block;
    check_some({.format = format, .rows = 12, .count = 3, .out = 37, .cols = cols, .glu = true, .bias = true});
    check_some({.format = format, .rows = 9, .count = 3, .out = 150, .cols = cols, .bias = true, .by_place = true});
  }
}

// Tiles of one to 16 places, of more columns than are on their way, and rows that end within a warp's.
TEST(ExpertSomeCuda, EveryTile) {
  INGOT_NEEDS_DEVICE();
  for (const int rows : {4, 16, 25})
    for (const Format format : {Format::kQ4_K, Format::kQ6_K}) {
      check_some({.format = format, .rows = rows, .count = 2, .used = 1, .out = 24, .cols = 1536, .glu = true});
      check_some({.format = format, .rows = rows, .count = 3, .out = 530, .cols = 256, .by_place = true, .sum = true});
    }
  check_some({.format = Format::kMXFP4,
              .rows = 20,
              .count = 4,
              .glu = true,
              .bias = true,
              .kind = ActivationKind::kClampedSwiglu});
  check_some({.format = Format::kINT4, .rows = 20, .count = 4, .cols = 256, .glu = true, .scale = true});
}

}  // namespace
}  // namespace ingot
