// Router and experts on a device, real or emulated, against the reference.
#include "ops/cuda/cuda_test_support.h"
#include "ops/expert_linear/expert_linear_test_support.h"

namespace ingot {
namespace {

using namespace test;

void check_case(const ExpertCase& c, int more_rows) {
  SCOPED_TRACE(std::string(format_name(c.format)) + ", " + std::to_string(c.rows) + " rows");
  ExpertOperands o(c);
  const Batch batch = rows_batch(c.rows);
  run_ref(o.op, batch);
  Buffer& result = c.sum ? o.out : o.places;
  const std::vector<float> want = result.values();
  o.places.poison();
  o.out.poison();
  DeviceRig rig(batch, {.more_rows = more_rows});
  rig.run(o.op);
  double norm = 0;
  for (const float v : want) norm += static_cast<double>(v) * v;
  const double most = 1e-4 * std::sqrt(norm / static_cast<double>(want.size()) + 1e-12);
  expect_near(result.values(), want, result.cols(), relative(64, most), "cuda against ref");
}

TEST(ExpertLinearCuda, MatchesReference) {
  INGOT_NEEDS_DEVICE();
  for (const Format format : {Format::kF32, Format::kBF16, Format::kQ4_K, Format::kMXFP4}) {
    const int64_t cols = format == Format::kQ4_K ? 256 : 64;
    check_case({.format = format, .rows = 3, .cols = cols, .glu = true, .bias = true}, 5);
    check_case({.format = format, .rows = 2, .out = 70, .cols = cols, .by_place = true, .sum = true}, 0);
  }
  // Streamed, and not: rows that are no whole vectors.
  for (const int64_t cols : {264, 520, 66}) {
    check_case({.format = Format::kBF16, .rows = 12, .out = 27, .cols = cols, .glu = true, .bias = true}, 1);
    check_case({.format = Format::kBF16, .rows = 5, .count = 9, .out = 27, .cols = cols, .bias = true, .sum = true}, 0);
  }
  check_case({.rows = 90, .count = 3, .out = 65, .cols = 70, .glu = true}, 6);
  check_case({.rows = 9, .glu = true, .scale = true}, 0);
  check_case({.rows = 9, .glu = true, .bias = true, .kind = ActivationKind::kClampedSwiglu}, 0);
}

void check_router(const RouterSpec& spec, int rows, int64_t count, int64_t used, bool with_bias, bool bad = false) {
  Random random(static_cast<uint64_t>(count * 100 + used));
  Buffer logits(rows, count), experts(rows, used, kTokenRows, used, DType::kI32), weights(rows, used);
  logits.fill([&] { return 2 * random.normal(); });
  if (bad) logits.at(rows - 1, count - 1) = NAN;
  std::vector<float> bias = normal_values(random, count);
  for (float& b : bias) b *= 0.1f;
  const RouterTopk op{.logits = logits.tensor(),
                      .bias = with_bias ? f32_weight(bias) : Weight{},
                      .experts = experts.tensor(),
                      .weights = weights.tensor(),
                      .spec = spec};
  const Batch batch = rows_batch(rows);
  run_ref(op, batch);
  const std::vector<float> want = weights.values(), chosen = experts.values();
  weights.poison();
  experts.poison();
  DeviceRig rig(batch, {.more_rows = 3});
  rig.run(op);
  expect_same_bits(experts.values(), chosen, "chosen experts");
  for (size_t i = 0; i < want.size(); ++i) {
    const float got = weights.values()[i];
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got));
    } else {
      EXPECT_NEAR(got, want[i], 1e-5 * std::fabs(want[i]) + 1e-7);
    }
  }
}

TEST(RouterTopkCuda, MatchesReference) {
  INGOT_NEEDS_DEVICE();
  for (const bool bias : {false, true}) {
    check_router({.renormalize = true}, 5, 8, 3, bias);
    check_router({.score = RouterScore::kSigmoid, .renormalize = true, .scale = 2.5f}, 9, 128, 8, bias);
    check_router({.score = RouterScore::kSigmoid, .groups = 4, .groups_used = 2, .group_score = GroupScore::kBestTwo},
                 5, 32, 6, bias);
  }
  check_router({.groups = 2, .groups_used = 1}, 4, 16, 2, false);
  check_router({.score = RouterScore::kSparsemixer, .jitter = 0.1f}, 20, 16, 2, false);
  check_router({.renormalize = true}, 4, 8, 3, false, true);
}

}  // namespace
}  // namespace ingot
