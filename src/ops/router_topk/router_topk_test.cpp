#include "ops/router_topk/router_topk.h"

#include "ops/row_op_test_support.h"

namespace ingot {
namespace {

using namespace test;

// Chosen experts equal, weights near; for 1, 2 and 3 threads the same bits.
void check_router(const RouterSpec& spec, int rows, int64_t count, int64_t used, bool with_bias) {
  Random random(static_cast<uint64_t>(count * 100 + used));
  Buffer logits(rows, count, kTokenRows, count + 3), experts(rows, used, kTokenRows, used, DType::kI32);
  Buffer weights(rows, used);
  logits.fill([&] { return 2 * random.normal(); });
  std::vector<float> bias = normal_values(random, count);
  for (float& b : bias) b *= 0.1f;
  RouterTopk op{.logits = logits.tensor(),
                .bias = with_bias ? f32_weight(bias) : Weight{},
                .experts = experts.tensor(),
                .weights = weights.tensor(),
                .spec = spec};
  const Batch batch = rows_batch(rows);
  run_ref(op, batch);
  const std::vector<float> want = weights.values(), chosen = experts.values();
  for (int r = 0; r < rows; ++r)
    for (int64_t j = 1; j < used; ++j) EXPECT_LT(experts.i32(r, j - 1), experts.i32(r, j)) << "row " << r;
  for (const int threads : {1, 2, 3}) {
    weights.poison();
    experts.poison();
    run_cpu(op, batch, threads);
    expect_same_bits(experts.values(), chosen, "chosen experts");
    expect_near(weights.values(), want, used, relative(32, 1e-7), "weights");
  }
}

TEST(RouterTopk, MatchesReference) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    for (const bool bias : {false, true}) {
      check_router({.score = score}, 1, 4, 1, bias);
      check_router({.score = score, .renormalize = true, .scale = 2.5f}, 37, 8, 3, bias);
      check_router({.score = score, .renormalize = true, .least_sum = 0.5f}, 700, 128, 8, bias);
      for (const GroupScore group : {GroupScore::kLargest, GroupScore::kBestTwo}) {
        check_router({.score = score, .groups = 4, .groups_used = 2, .group_score = group}, 33, 32, 6, bias);
        check_router({.score = score, .groups = 8, .groups_used = 8, .group_score = group}, 5, 8, 8, bias);
      }
    }
  }
  check_router({.score = RouterScore::kSparsemixer, .jitter = 0.01f}, 50, 16, 2, false);
  check_router({.score = RouterScore::kSparsemixer, .jitter = 0.3f}, 50, 2, 2, false);
}

struct Chosen {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Chosen route(const std::vector<float>& row, int64_t used, const RouterSpec& spec) {
  const auto count = static_cast<int64_t>(row.size());
  Buffer logits(1, count), experts(1, used, kTokenRows, used, DType::kI32), weights(1, used);
  for (int64_t e = 0; e < count; ++e) logits.at(0, e) = row[static_cast<size_t>(e)];
  run_cpu(RouterTopk{.logits = logits.tensor(),
                     .bias = {},
                     .experts = experts.tensor(),
                     .weights = weights.tensor(),
                     .spec = spec},
          rows_batch(1));
  Chosen chosen;
  for (int64_t j = 0; j < used; ++j) {
    chosen.experts.push_back(experts.i32(0, j));
    chosen.weights.push_back(weights.at(0, j));
  }
  return chosen;
}

TEST(RouterTopk, EqualScoresGoToTheLowerIndex) {
  const RouterSpec spec{.renormalize = true};
  EXPECT_EQ(route({1, 3, 3, 3}, 2, spec).experts, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(route({0, 0, 0, 0}, 3, spec).experts, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(route({5, 1, 9, 5}, 2, spec).experts, (std::vector<int32_t>{0, 2}));
}

TEST(RouterTopk, NotANumberMakesAllWeightsNone) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid, RouterScore::kSparsemixer}) {
    for (const float odd : {NAN, INFINITY, -INFINITY}) {
      const Chosen chosen = route({1, odd, 3, 2}, 2, {.score = score});
      EXPECT_EQ(chosen.experts, (std::vector<int32_t>{0, 1}));
      for (const float w : chosen.weights) EXPECT_TRUE(std::isnan(w));
    }
  }
}

}  // namespace
}  // namespace ingot
