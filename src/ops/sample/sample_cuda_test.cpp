// Sample on the device against the reference: the same tokens for the same seeds, whatever the parameters.
#include "ops/sample/sample_cuda.h"

#include "ops/cuda/cuda_test_support.h"
#include "ops/sample/sample_cases_test_support.h"

namespace ingot {
namespace {

using namespace test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// All cases, of one vocabulary, as the rows of one op on the device. `gap`: columns between the rows.
std::vector<SampleResult> device_sample(const std::vector<Case>& cases, int64_t gap = 5) {
  const int64_t vocabulary = static_cast<int64_t>(cases.at(0).logits.size());
  Buffer logits(static_cast<int64_t>(cases.size()), vocabulary, kLogitRows, vocabulary + gap);
  for (size_t r = 0; r < cases.size(); ++r)
    for (int64_t v = 0; v < vocabulary; ++v)
      logits.at(static_cast<int64_t>(r), v) = cases[r].logits[static_cast<size_t>(v)];
  const std::vector<SampleRow> rows = rows_of(cases);
  std::vector<SampleResult> results(rows.size(), SampleResult{-7, -7, {{-7, -7}}});
  const Batch batch = rows_batch(static_cast<int>(rows.size()));
  DeviceRig rig(batch, {.more_rows = 1});
  rig.run(Sample{logits.tensor(), rows, results});
  return results;
}

void expect_all_same(const std::vector<Case>& cases, const std::string& what, int64_t gap = 5) {
  const std::vector<SampleResult> want = sample(cases, 0), got = device_sample(cases, gap);
  for (size_t r = 0; r < cases.size(); ++r) {
    expect_same(got[r], want[r], what + ", row " + std::to_string(r));
    if (testing::Test::HasFailure()) return;
  }
}

void match(int64_t vocabulary, int rounds, int rows) {
  Random random(static_cast<uint64_t>(vocabulary));
  for (int round = 0; round < rounds; ++round) {
    std::vector<Case> cases;
    for (int r = 0; r < rows; ++r) cases.push_back(random_case(random, vocabulary));
    // Rows that begin at multiples of 16 bytes, and others.
    const int64_t gap = round % 2 == 0 ? 5 : (4 - vocabulary % 4) % 4;
    expect_all_same(cases, "vocabulary " + std::to_string(vocabulary) + ", round " + std::to_string(round), gap);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CudaSample, TinyVocabularies) {
  INGOT_NEEDS_DEVICE();
  for (const int64_t n : {1, 2, 3, 8}) match(n, 3, 40);
}
TEST(CudaSample, Vocabulary63) {
  INGOT_NEEDS_DEVICE();
  match(63, 4, 80);
}
TEST(CudaSample, Vocabulary1000) {
  INGOT_NEEDS_DEVICE();
  match(1000, 6, 60);
}
TEST(CudaSample, Vocabulary32000) {
  INGOT_NEEDS_DEVICE();
  match(32000, 2, 12);
}

Case twelve() {
  Case c;
  c.logits = {2.0f, 1.5f, 1.0f, 0.8f, 0.5f, 0.3f, 0.0f, -0.2f, -0.5f, -1.0f, 1.2f, 0.1f};
  return c;
}

// Each parameter alone and with others, over many draws.
TEST(CudaSample, EveryParameterOverManySeeds) {
  INGOT_NEEDS_DEVICE();
  std::vector<Case> kinds(16, twelve());
  kinds[1].params.temperature = 0.5f;
  kinds[2].params.temperature = 1e6f;
  kinds[3].params.typical_p = 0.2f;
  kinds[4].params.typical_p = 0.5f;
  kinds[5].params.top_p = 0.5f;
  kinds[6].params.top_p = 0.9f;
  kinds[7].params.min_p = 0.3f;
  kinds[8].params.top_k = 3;
  kinds[9].params.top_k = 3;
  kinds[9].params.top_p = 0.75f;
  kinds[10].params.typical_p = 0.5f;
  kinds[10].params.min_p = 0.6f;
  kinds[11].params.xtc_probability = 0.5f;
  kinds[12].params.logit_bias = {{9, kInfinity}, {8, kInfinity}, {3, 2.0f}};
  kinds[13].mask = {0b0010'0010'0100u};
  kinds[14].params.logit_bias = {{4, 1.0f}, {4, 0.3f}, {4, -0.1f}};
  kinds[15].params.temperature = 0;
  std::vector<Case> cases;
  for (int position = 0; position < 40; ++position)
    for (const Case& kind : kinds) {
      cases.push_back(kind);
      cases.back().position = position;
      cases.back().params.seed = static_cast<uint64_t>(position % 3);
    }
  expect_all_same(cases, "twelve");
}

// Ties are cut by their ids, also where they are more than fit into one bin.
TEST(CudaSample, EqualLogits) {
  INGOT_NEEDS_DEVICE();
  std::vector<Case> cases;
  for (int position = 0; position < 6; ++position) {
    Case c;
    c.logits.assign(5000, 1.5f);
    c.position = position;
    c.params.n_logprobs = 3;
    for (const int kind : {0, 1, 2, 3, 4}) {
      cases.push_back(c);
      SamplingParams& p = cases.back().params;
      if (kind == 0) p.top_k = 3;
      if (kind == 1) p.top_k = 2500;
      if (kind == 2) p.top_p = 0.004f;
      if (kind == 3) p.typical_p = 0.5f;
      if (kind == 4) p.temperature = 0;
    }
  }
  expect_all_same(cases, "equal");
}

// Sets of few tokens and of most of a large vocabulary: listed, and not.
TEST(CudaSample, SmallAndLargeSets) {
  INGOT_NEEDS_DEVICE();
  Random random(13);
  std::vector<Case> cases;
  for (int kind = 0; kind < 12; ++kind) {
    Case c;
    for (int v = 0; v < 20000; ++v) c.logits.push_back(2 * random.normal());
    c.params.seed = random.bits();
    SamplingParams& p = c.params;
    if (kind < 4) p.top_p = std::initializer_list<float>{0.01f, 0.3f, 0.9f, 0.999f}.begin()[kind];
    if (kind == 4) p.top_k = 3000;
    if (kind == 5) p.top_k = 12000;
    if (kind == 6) p.min_p = 1e-5f;
    if (kind == 7) p.min_p = 0.5f;
    if (kind == 8) p.typical_p = 0.9f;
    if (kind == 9) p.xtc_probability = p.xtc_threshold = 1e-4f;
    if (kind == 10) p.top_k = 40;
    if (kind == 10) p.typical_p = p.top_p = 0.9f;
    if (kind == 11) p.xtc_probability = 1;
    if (kind % 3 == 0) p.logit_bias = {{1, -5.0f}, {19999, 3.0f}};
    cases.push_back(c);
  }
  expect_all_same(cases, "sets", 0);
}

TEST(CudaSample, BadRowsGiveNoTokenAndHarmNoOther) {
  INGOT_NEEDS_DEVICE();
  for (const float temperature : {0.0f, 1.0f}) {
    std::vector<Case> cases(8, twelve());
    for (Case& c : cases) {
      c.params.n_logprobs = 2;
      c.params.temperature = temperature;
    }
    cases[1].logits[3] = kNan;
    cases[2].logits[3] = kInfinity;
    std::fill(cases[3].logits.begin(), cases[3].logits.end(), -kInfinity);
    cases[4].logits[11] = kNan;
    cases[4].mask = {1};  // the mask does not hide it
    cases[5].mask = {0};
    cases[6].logits[2] = kInfinity;
    cases[6].params.logit_bias = {{2, -kInfinity}};
    cases[6].params.top_p = 0.5f;
    expect_all_same(cases, "bad rows");
    EXPECT_EQ(device_sample(cases)[4].token, -1);
  }
}

TEST(CudaSample, LongHistories) {
  INGOT_NEEDS_DEVICE();
  Random random(9);
  std::vector<Case> cases;
  for (const int period : {1, 7, 400}) {
    Case c = random_case(random, 500);
    c.logits = random_logits(random, 500);
    for (float& l : c.logits) l = std::max(l, -20.0f);
    c.mask.clear();
    c.params.dry_multiplier = 0.8f;
    c.params.dry_base = 1.01f;
    c.params.repetition_penalty = 1.2f;
    c.params.frequency_penalty = 0.01f;
    c.history.clear();
    for (int i = 0; i < 1500; ++i) c.history.push_back(i % period);
    c.prompt_tokens = 700;
    cases.push_back(c);
  }
  expect_all_same(cases, "long");
}

TEST(CudaSample, ManyLogprobs) {
  INGOT_NEEDS_DEVICE();
  Random random(11);
  std::vector<Case> cases;
  for (const int n : {0, 1, 20, 700, 3000}) {
    Case c;
    c.logits = random_logits(random, 3000);
    c.params.n_logprobs = n;
    c.params.temperature = 0;
    cases.push_back(c);
  }
  expect_all_same(cases, "logprobs");
}

// Two launches in flight, each with its own results; the newest launch's tokens are on the device.
TEST(CudaSample, TwoLaunchesUnderWay) {
  INGOT_NEEDS_DEVICE();
  Random random(12);
  constexpr int64_t kVocabulary = 300;
  const Batch batch = rows_batch(6);
  DeviceRig rig(batch);
  cuda::Ctx ctx = rig.ctx();
  cuda::DeviceSampler sampler(6, kVocabulary);
  std::vector<std::vector<Case>> steps;
  for (int step = 0; step < 4; ++step) {
    steps.emplace_back();
    for (int r = 0; r < 6 - step; ++r) steps.back().push_back(random_case(random, kVocabulary));
  }
  const auto launch = [&](size_t step) {
    const auto n = static_cast<int64_t>(steps[step].size());
    Buffer host(n, kVocabulary, kLogitRows);
    for (int64_t r = 0; r < n; ++r)
      for (int64_t v = 0; v < kVocabulary; ++v)
        host.at(r, v) = steps[step][static_cast<size_t>(r)].logits[static_cast<size_t>(v)];
    Tensor t = host.tensor();
    std::byte* place = rig.allocate(n * kVocabulary * 4);
    cuda::copy_to_device(place, t.data, n * kVocabulary * 4, rig.stream());
    rig.synchronize();
    t.data = place;
    sampler.launch(rows_of(steps[step]), t, ctx);
  };
  const auto collect = [&](size_t step) {
    rig.synchronize();
    std::vector<SampleResult> got(steps[step].size());
    sampler.collect(got);
    const std::vector<SampleResult> want = sample(steps[step], 0);
    for (size_t r = 0; r < got.size(); ++r) expect_same(got[r], want[r], "step " + std::to_string(step));
  };
  launch(0);
  for (size_t step = 1; step < steps.size(); ++step) {
    launch(step);
    collect(step - 1);
  }
  collect(steps.size() - 1);
  std::vector<int32_t> tokens(steps.back().size());
  rig.download(tokens.data(), reinterpret_cast<const std::byte*>(sampler.tokens()),
               static_cast<int64_t>(tokens.size() * 4));
  const std::vector<SampleResult> want = sample(steps.back(), 0);
  for (size_t r = 0; r < tokens.size(); ++r) EXPECT_EQ(tokens[r], want[r].token);
}

}  // namespace
}  // namespace ingot
