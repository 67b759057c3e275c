// Router and experts on a device, real or emulated, against the reference.
#include <bit>

#include "ops/cuda/cuda_test_support.h"
#include "ops/expert_linear/expert_linear_test_support.h"

namespace ingot {
namespace {

using namespace test;

// What a device rounds to bf16 is so already, so that the results differ by the order of sums alone.
void round_inputs(ExpertOperands& o, const ExpertCase& c) {
  if (c.format == Format::kF32) return;
  const auto rounded = [](float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u); };
  for (int r = 0; r < c.rows; ++r) {
    for (int64_t k = 0; k < o.x.cols(); ++k) o.x.at(r, k) = rounded(o.x.at(r, k));
    for (int64_t j = 0; j < c.used && c.scale; ++j) o.weights.at(r, j) = j % 2 == 0 ? 0.5f : 2.0f;
  }
}

double allowed(const std::vector<float>& want) {
  double norm = 0;
  for (const float v : want) norm += static_cast<double>(v) * v;
  return 1e-4 * std::sqrt(norm / static_cast<double>(want.size()) + 1e-12);
}

void check_case(const ExpertCase& c, int more_rows, const DeviceRig::Options& given = {}) {
  SCOPED_TRACE(std::string(format_name(c.format)) + ", " + std::to_string(c.rows) + " rows of " +
               std::to_string(c.cols));
  ExpertOperands o(c);
  round_inputs(o, c);
  const Batch batch = rows_batch(c.rows);
  run_ref(o.op, batch);
  Buffer& result = c.sum ? o.out : o.places;
  const std::vector<float> want = result.values();
  o.places.poison();
  o.out.poison();
  DeviceRig::Options options = given;
  options.more_rows = more_rows;
  DeviceRig rig(batch, options);
  rig.run(o.op);
  expect_near(result.values(), want, result.cols(), relative(64, allowed(want)), "cuda against ref");
}

TEST(ExpertLinearCuda, MatchesReference) {
  INGOT_NEEDS_DEVICE();
  for (const Format format : {Format::kF32, Format::kBF16, Format::kQ4_K, Format::kMXFP4, Format::kNVFP4}) {
    const int64_t cols = format == Format::kQ4_K ? 256 : 64;
    check_case({.format = format, .rows = 3, .cols = cols, .glu = true, .bias = true}, 5);
    check_case({.format = format, .rows = 2, .out = 70, .cols = cols, .by_place = true, .sum = true}, 0);
    check_case({.format = format, .rows = 9, .cols = cols, .glu = true, .scale = true}, 0);
    // Weights as they are published.
    check_case({.format = format, .rows = 40, .count = 3, .out = 70, .cols = cols, .glu = true, .bias = true}, 1,
               {.arch = 80});
  }
  // Rows that are no whole chunks.
  for (const int64_t cols : {264, 520, 66}) {
    check_case({.format = Format::kBF16, .rows = 12, .out = 27, .cols = cols, .glu = true, .bias = true}, 1);
    check_case({.format = Format::kBF16, .rows = 5, .count = 9, .out = 27, .cols = cols, .bias = true, .sum = true}, 0);
    check_case({.format = Format::kQ4_0, .rows = 5, .out = 27, .cols = cols / 32 * 32, .glu = true}, 1);
  }
  // All rows on one expert, and many tiles for few blocks.
  check_case({.format = Format::kBF16, .rows = 20, .count = 1, .used = 1, .cols = 96, .glu = true}, 0);
  ExpertCase many{.format = Format::kQ8_0, .rows = 70, .count = 5, .used = 3, .out = 100, .cols = 96, .bias = true};
  check_case(many, 3, {.batch_invariant = true, .multiprocessors = 3});
  many.format = Format::kBF16;
  check_case(many, 3);
  check_case({.rows = 90, .count = 3, .out = 65, .cols = 70, .glu = true}, 6);
  check_case({.rows = 9, .glu = true, .scale = true}, 0);
  for (const Format format : {Format::kF32, Format::kMXFP4})
    check_case({.format = format, .rows = 9, .glu = true, .bias = true, .kind = ActivationKind::kClampedSwiglu}, 0);
}

TEST(ExpertLinearCuda, EveryFormatThatIsPacked) {
  INGOT_NEEDS_DEVICE();
#define X(NAME) \
  check_case({.format = Format::k##NAME, .rows = 3, .count = 5, .out = 20, .cols = 256, .glu = true, .bias = true}, 1);
  INGOT_FORMATS(X)
#undef X
}

// Gate and up, then down, which meets the same places: in different formats, and one of them not packed.
TEST(ExpertLinearCuda, TwoThatMeetTheSamePlaces) {
  INGOT_NEEDS_DEVICE();
  for (const Format down : {Format::kBF16, Format::kQ8_0, Format::kF32}) {
    const ExpertCase c{.format = Format::kBF16, .rows = 6, .count = 5, .out = 64, .cols = 96, .glu = true};
    ExpertOperands first(c);
    ExpertOperands second(
        {.format = down, .rows = 6, .count = 5, .out = 40, .cols = 64, .by_place = true, .sum = true});
    second.op.experts = first.op.experts;
    second.op.x = first.op.places;
    round_inputs(first, c);
    const Batch batch = rows_batch(c.rows);
    run_ref(first.op, batch);
    run_ref(second.op, batch);
    const std::vector<float> want = second.out.values();
    second.out.poison();
    DeviceRig rig(batch, {.more_rows = 2});
    EXPECT_TRUE(rig.run_linked(first.op, second.op));
    // What lies between them is rounded to bf16.
    expect_near(second.out.values(), want, second.out.cols(), relative(64, 100 * allowed(want)), "cuda against ref");
  }
}

// Batch mates, and what they choose, change no bit.
TEST(ExpertLinearCuda, RowsAloneAreTheSame) {
  INGOT_NEEDS_DEVICE();
  for (const Format format : {Format::kF32, Format::kBF16, Format::kQ4_K}) {
    const ExpertCase c{
        .format = format, .rows = 50, .count = 4, .used = 2, .out = 40, .cols = 512, .by_place = true, .sum = true};
    ExpertOperands o(c);
    const Batch batch = rows_batch(c.rows);
    DeviceRig(batch, {.batch_invariant = true}).run(o.op);
    for (const int r : {0, 31, 49}) {
      ExpertOperands one(c);
      ExpertLinear op = one.op;
      const std::vector<float> want = row_of(o.out, r);
      op.x.data = reinterpret_cast<std::byte*>(&one.x.at(r, 0));
      op.experts.data = reinterpret_cast<std::byte*>(&one.experts.i32(r, 0));
      op.weights.data = reinterpret_cast<std::byte*>(&one.weights.at(r, 0));
      const Batch alone = rows_batch(1);
      DeviceRig(alone, {.batch_invariant = true}).run(op);
      expect_same_bits(row_of(one.out, 0), want, std::string(format_name(format)) + ", row " + std::to_string(r));
    }
  }
}

enum class Logits { kPlain, kEqual, kBad };  // kEqual: whole numbers, so that many are the same

void check_router(const RouterSpec& spec, int rows, int64_t count, int64_t used, bool with_bias,
                  Logits kind = Logits::kPlain) {
  Random random(static_cast<uint64_t>(count * 100 + used));
  Buffer logits(rows, count), experts(rows, used, kTokenRows, used, DType::kI32), weights(rows, used);
  logits.fill([&] { return kind == Logits::kEqual ? std::round(random.normal()) : 2 * random.normal(); });
  if (kind == Logits::kBad) logits.at(rows - 1, count - 1) = NAN;
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
  check_router({.renormalize = true}, 4, 8, 3, false, Logits::kBad);
  // A lane of the warp has up to 4, 8 and 32 experts.
  for (const int64_t count : {128, 131, 200, 300})
    check_router({.renormalize = true}, 5, count, 9, false, Logits::kEqual);
}

// From the residual stream to the experts' sums: norm, router, choice and list are one launch for few rows, and each
// op's own for more.
void check_route(int rows, int64_t count, bool normed, int linked) {
  SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(count) + " experts");
  constexpr int64_t kCols = 100, kUsed = 3, kOut = 32;
  Random random(static_cast<uint64_t>(rows * 100 + count));
  const ExpertCase glu{
      .format = Format::kBF16, .rows = rows, .count = count, .used = kUsed, .out = kOut, .cols = kCols, .glu = true};
  const ExpertCase down{.format = Format::kBF16,
                        .rows = rows,
                        .count = count,
                        .used = kUsed,
                        .out = kCols,
                        .cols = kOut,
                        .by_place = true,
                        .sum = true};
  ExpertOperands first(glu), second(down, 2);
  Buffer x(rows, kCols), logits(rows, count), weights(rows, kUsed);
  x.fill([&] { return random.normal(); });
  const TestWeight router(random, Format::kF32, count, kCols);
  const std::vector<float> norm_weight = normal_values(random, kCols), bias = normal_values(random, count);
  const RmsNorm norm{
      .x = x.tensor(), .weight = f32_weight(norm_weight), .out = first.x.tensor(), .width = kCols, .eps = 1e-5f};
  Linear linear;
  linear.x = normed ? first.x.tensor() : x.tensor();
  linear.parts[0].weight = router.weight();
  linear.parts[0].bias = f32_weight(bias);
  linear.parts[0].out = logits.tensor();
  const RouterTopk topk{.logits = logits.tensor(),
                        .bias = {},
                        .experts = first.experts.tensor(),
                        .weights = weights.tensor(),
                        .spec = {.renormalize = true}};
  first.op.x = linear.x;
  second.op.x = first.op.places;
  second.op.experts = first.op.experts;
  second.op.weights = weights.tensor();
  const Batch batch = rows_batch(rows);
  if (normed) run_ref(norm, batch);
  run_ref(linear, batch);
  run_ref(topk, batch);
  run_ref(first.op, batch);
  run_ref(second.op, batch);
  const std::vector<float> want = second.out.values(), chosen = first.experts.values(), weighed = weights.values();
  second.out.poison();
  first.experts.poison();
  weights.poison();
  DeviceRig rig(batch, {.more_rows = 3});
  const int got = normed ? rig.run_chain(norm, linear, topk, first.op, second.op)
                         : rig.run_chain(linear, topk, first.op, second.op);
  EXPECT_EQ(got, linked);
  expect_same_bits(first.experts.values(), chosen, "chosen experts");
  expect_near(weights.values(), weighed, kUsed, relative(64, 1e-5), "weights");
  expect_near(second.out.values(), want, kCols, relative(64, 200 * allowed(want)), "cuda against ref");
}

TEST(RouterTopkCuda, OneLaunchFromTheNormToTheList) {
  INGOT_NEEDS_DEVICE();
  for (const int rows : {1, 7, 21, 40}) {
    check_route(rows, 6, true, 4);
    check_route(rows, 37, false, 3);
  }
}

// The sum of places, the residual and the norm after it, up to as many rows as the linear reads packed weights.
TEST(ExpertLinearCuda, TheSumMakesTheNormOfTheNextLinear) {
  INGOT_NEEDS_DEVICE();
  constexpr int64_t kCols = 96, kOut = 48;
  for (const int rows : {1, 6, 12, 40}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    const ExpertCase c{
        .format = Format::kBF16, .rows = rows, .count = 5, .out = kCols, .cols = 64, .by_place = true, .sum = true};
    ExpertOperands o(c);
    round_inputs(o, c);
    Random random(static_cast<uint64_t>(rows));
    Buffer residual(rows, kCols), sum(rows, kCols), out(rows, kOut);
    residual.fill([&] { return random.normal(); });
    const TestWeight weight(random, Format::kBF16, kOut, kCols);
    const std::vector<float> norm = normal_values(random, kCols);
    Linear linear;
    linear.x = residual.tensor();
    linear.input.weight = f32_weight(norm);
    linear.input.eps = 1e-5f;
    linear.input.add = o.out.tensor();
    linear.input.sum = sum.tensor();
    linear.parts[0].weight = weight.weight();
    linear.parts[0].out = out.tensor();
    const Batch batch = rows_batch(rows);
    run_ref(o.op, batch);
    run_ref(linear, batch);
    const std::vector<float> want = out.values(), added = sum.values();
    out.poison();
    sum.poison();
    DeviceRig rig(batch, {.more_rows = 2});
    EXPECT_TRUE(rig.run_linked(o.op, linear));
    expect_near(sum.values(), added, kCols, relative(64, allowed(added)), "the sum");
    expect_near(out.values(), want, kOut, relative(64, 100 * allowed(want)), "the linear");
  }
}

}  // namespace
}  // namespace ingot
