// Experts that meet many places, by tiles of 32 to 256 of them, against the reference. Rows are such that bf16 holds
// them; weights are rounded to it.
#include "ops/cuda/cuda_test_support.h"
#include "ops/expert_linear/expert_linear_test_support.h"

namespace ingot {
namespace {

using namespace test;

// Of the squares, of gate times up.
constexpr double kRounded = 2.5e-5;

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    error += d * d;
    squares += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return error / squares;
}

// `only`: the expert that all rows meet, or -1.
void check_many(const ExpertCase& c, int only = -1) {
  SCOPED_TRACE(testing::Message() << format_name(c.format) << ", " << c.rows << " rows, " << c.count << " experts, N "
                                  << c.out << ", K " << c.cols << (c.glu ? ", glu" : "") << (c.bias ? ", bias" : ""));
  ExpertOperands o(c);
  o.x.fill([random = Random(5)]() mutable { return bf16_to_f32(f32_to_bf16(random.normal())); });
  for (int r = 0; r < c.rows && only >= 0; ++r) o.experts.i32(r, 0) = only;
  const Batch batch = rows_batch(c.rows);
  run_ref(o.op, batch);
  Buffer& result = c.sum ? o.out : o.places;
  const std::vector<float> want = result.values();
  o.places.poison();
  o.out.poison();
  DeviceRig rig(batch, {.more_rows = 7});
  rig.run(o.op);
  o.places.expect_intact();
  EXPECT_LE(relative_error(result.values(), want), kRounded);
}

TEST(ExpertManyCuda, EveryFormat) {
  INGOT_NEEDS_DEVICE();
  for (const Format format :
       {Format::kBF16, Format::kF16, Format::kQ4_0, Format::kINT4, Format::kMXFP4, Format::kNVFP4, Format::kQ8_0,
        Format::kINT8, Format::kF8_E4M3, Format::kQ4_K, Format::kQ5_K, Format::kQ6_K}) {
    const int64_t block = format_block(format), cols = block == 1 ? 70 : block == 32 ? 160 : 2 * block;
    check_many({.format = format, .rows = 50, .count = 3, .out = 37, .cols = cols, .glu = true, .bias = true});
    check_many({.format = format, .rows = 50, .count = 3, .out = 150, .cols = cols, .bias = true, .by_place = true});
  }
}

// From 32 places of a tile to several tiles of 256, the last one more and less than half full.
TEST(ExpertManyCuda, EveryTile) {
  INGOT_NEEDS_DEVICE();
  for (const Format format : {Format::kBF16, Format::kQ4_K})
    for (const int rows : {16, 50, 100, 230, 330, 520}) {
      check_many({.format = format, .rows = rows, .count = 2, .used = 1, .out = 24, .cols = 256, .glu = true});
      check_many({.format = format, .rows = rows, .count = 3, .out = 130, .cols = 256, .by_place = true, .sum = true});
    }
}

TEST(ExpertManyCuda, UnevenChoices) {
  INGOT_NEEDS_DEVICE();
  for (const int only : {0, 3, 6})
    check_many({.format = Format::kBF16, .rows = 61, .count = 7, .used = 1, .out = 40, .cols = 64, .glu = true}, only);
  // The list by many blocks.
  check_many({.format = Format::kBF16, .rows = 4200, .count = 6, .out = 16, .cols = 32, .sum = true});
  check_many({.format = Format::kBF16, .rows = 40, .count = 4, .glu = true, .scale = true});
  check_many({.format = Format::kMXFP4,
              .rows = 80,
              .count = 4,
              .glu = true,
              .bias = true,
              .kind = ActivationKind::kClampedSwiglu});
}

}  // namespace
}  // namespace ingot
