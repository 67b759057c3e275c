// Ops over activations and logits of more than 2^31 elements.
#include <limits>

#include "ops/cuda/large_test_support.h"
#include "ops/sample/sample_cases_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr int kFew = 5;
struct Size {
  int64_t rows, cols;
};
// 2^31 + 5.2 million elements, 8 GiB of f32.
constexpr Size kLarge{16416, 131136};
constexpr Size kSmall{23, 136};
static_assert(kLarge.rows * kLarge.cols > kTooMany);

struct Inputs {
  Buffer a, b, out;
  explicit Inputs(const Size& s, Rows kind = kTokenRows)
      : a(kFew, s.cols, kind), b(kFew, s.cols, kind), out(kFew, s.cols, kind) {
    Random random(1);
    a.fill_outliers(random);
    b.fill_outliers(random);
  }
};

void check_elements(const Size& s) {
  Inputs x(s);
  Repeated of(kFew, s.rows);
  of.check(Add{x.a.tensor(), x.b.tensor(), x.out.tensor()}, {&x.out}, exact());
  of.check(Scale{x.a.tensor(), x.out.tensor(), 0.37f}, {&x.out}, exact());
  of.check(Softcap{x.a.tensor(), x.a.tensor(), 30.0f}, {}, relative(8), {&x.a});
  of.check(Activation{x.a.tensor(), x.out.tensor(), ActivationKind::kRelu}, {&x.out}, exact());
  const Tolerance product = [&](int64_t r, int64_t c, double want) {
    return 9 * kEps * std::fabs(want) + 20 * kEps * std::fabs(x.b.at(r, c));
  };
  of.check(Glu{x.a.tensor(), x.b.tensor(), x.out.tensor(), ActivationKind::kSilu}, {&x.out}, product);
}
TEST(CudaLarge, ElementsInSmall) {
  INGOT_NEEDS_DEVICE();
  check_elements(kSmall);
}
TEST(CudaLarge, Elements) {
  INGOT_NEEDS_ROOM(28 * kGib);
  check_elements(kLarge);
}

void check_norms(const Size& s) {
  Inputs x(s);
  Buffer sum(kFew, s.cols);
  Random random(2);
  const TestWeight weight(random, Format::kF32, 1, s.cols), bias(random, Format::kF32, 1, s.cols);
  const TestWeight of_head(random, Format::kF32, 1, 8);
  // The sum of squares of a row is added up in another order than the reference's: roundings of its partial sums.
  const double row = 16 + std::sqrt(static_cast<double>(s.cols));
  const Tolerance norm = relative(row, row * kEps);
  Repeated of(kFew, s.rows);
  of.check(RmsNorm{x.a.tensor(), weight.weight(), x.out.tensor(), s.cols, 1e-5f}, {&x.out}, norm);
  of.check(RmsNorm{x.a.tensor(), of_head.weight(), x.out.tensor(), 8, 1e-5f}, {&x.out}, relative(16));
  of.check(AddRmsNorm{x.a.tensor(), x.b.tensor(), weight.weight(), sum.tensor(), x.out.tensor(), 1e-5f}, {&sum, &x.out},
           norm);
  of.check(LayerNorm{x.a.tensor(), weight.weight(), bias.weight(), x.out.tensor(), 1e-5f}, {&x.out},
           relative(row, 64 * row * kEps));
}
TEST(CudaLarge, NormsInSmall) {
  INGOT_NEEDS_DEVICE();
  check_norms(kSmall);
}
TEST(CudaLarge, Norms) {
  INGOT_NEEDS_ROOM(37 * kGib);
  check_norms(kLarge);
}

void check_rope(const Size& s) {
  Inputs x(s);
  Buffer k(kFew, 8), table(kFew, 8);
  Random random(3);
  k.fill_outliers(random);
  table.fill([&] { return static_cast<float>(random.uniform() * 2 - 1); });
  Repeated(kFew, s.rows)
      .check(Rope{x.a.tensor(), k.tensor(), table.tensor(), 8, false}, {}, relative(4, 800 * kEps), {&x.a, &k});
}
TEST(CudaLarge, RopeInSmall) {
  INGOT_NEEDS_DEVICE();
  check_rope(kSmall);
}
TEST(CudaLarge, Rope) {
  INGOT_NEEDS_ROOM(10 * kGib);
  check_rope(kLarge);
}

void check_logits(const Size& s) {
  Inputs x(s, kLogitRows);
  Buffer hidden(kFew, s.cols);
  Random random(4);
  hidden.fill_outliers(random);
  Repeated of(kFew, s.rows);
  of.check(GatherRows{hidden.tensor(), x.out.tensor()}, {&x.out}, exact());
  const double row = 64 + std::sqrt(static_cast<double>(s.cols));
  // Below the smallest normal number steps are as large as there: a weight may lie some of them apart.
  constexpr double kSmallest = std::numeric_limits<float>::min();
  of.check(Softmax{x.a.tensor(), x.out.tensor()}, {&x.out}, relative(row, row * kEps * kSmallest));
  // Indices are compared as the bits of floats.
  Buffer ids(kFew, 20, kLogitRows, 0, DType::kI32);
  Buffer values(kFew, 20, kLogitRows);
  of.check(TopK{x.a.tensor(), values.tensor(), ids.tensor()}, {&values, &ids}, exact());
}
TEST(CudaLarge, LogitsInSmall) {
  INGOT_NEEDS_DEVICE();
  check_logits(kSmall);
}
TEST(CudaLarge, Logits) {
  INGOT_NEEDS_ROOM(19 * kGib);
  check_logits(kLarge);
}

// Tokens of every row; with `biased` all rows have logits of their own beside the model's.
void check_sampling(const Size& s, bool biased) {
  std::vector<Case> cases(kFew);
  for (size_t r = 0; r < cases.size(); ++r) {
    Random random(r);
    cases[r].logits.resize(static_cast<size_t>(s.cols));
    for (float& x : cases[r].logits) x = 3 * random.normal();
    cases[r].params.seed = r + 7;
    if (biased) cases[r].params.logit_bias = {{static_cast<int32_t>(r), 1.5f}};
  }
  cases[0].params.temperature = 0;
  cases[1].params.n_logprobs = 3;
  cases[2].params.top_k = 40;
  cases[3].params.top_p = 0.9f;
  // By the CPU's own version: the reference takes two seconds for a plain draw from 2^20 tokens.
  const std::vector<SampleResult> want = sample(cases, 1);

  std::vector<float> logits;
  for (const Case& c : cases) logits.insert(logits.end(), c.logits.begin(), c.logits.end());
  const Batch batch = rows_batch(static_cast<int>(s.rows));
  DeviceRig rig(batch);
  Sample op;
  op.logits.rows = kLogitRows;
  op.logits.cols = op.logits.stride = s.cols;
  op.logits.data = repeat_on_device(rig, logits.data(), std::ssize(logits) * 4, s.rows * s.cols * 4);
  const std::vector<SampleRow> kinds = rows_of(cases);
  std::vector<SampleRow> rows;
  for (int64_t r = 0; r < s.rows; ++r) rows.push_back(kinds[static_cast<size_t>(r % kFew)]);
  std::vector<SampleResult> results(rows.size());
  op.rows = rows;
  op.results = results;
  cuda::Ctx ctx = rig.ctx();
  cuda::run(op, ctx);
  rig.expect_nothing_left();
  for (size_t r = 0; r < results.size(); ++r) {
    expect_same(results[r], want[r % kFew], "row " + std::to_string(r));
    if (testing::Test::HasFailure()) return;
  }
}
// The largest vocabulary that there is.
constexpr Size kManyLogits{2064, 1 << 20};
static_assert(kManyLogits.rows * kManyLogits.cols > kTooMany);

TEST(CudaLarge, SamplingInSmall) {
  INGOT_NEEDS_DEVICE();
  check_sampling(kSmall, false);
  check_sampling(kSmall, true);
}
TEST(CudaLarge, Sampling) {
  INGOT_NEEDS_ROOM(11 * kGib);
  check_sampling(kManyLogits, false);
}
TEST(CudaLarge, SamplingOfBiasedRows) {
  INGOT_NEEDS_ROOM(24 * kGib);
  check_sampling(kManyLogits, true);
}

}  // namespace
}  // namespace ingot
