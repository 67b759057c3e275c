// The CPU version of Sample against the reference: the same token in thousands of random cases.
#include "ops/sample/sample.h"
#include "ops/sample/sample_cases_test_support.h"

namespace ingot {
namespace {

using namespace test;

void match(int64_t vocabulary, int rounds, int rows) {
  Random random(static_cast<uint64_t>(vocabulary));
  for (int round = 0; round < rounds; ++round) {
    std::vector<Case> cases;
    for (int r = 0; r < rows; ++r) cases.push_back(random_case(random, vocabulary));
    const std::vector<SampleResult> want = sample(cases, 0);
    const std::vector<SampleResult> got = sample(cases, 1 + round % 3);
    for (size_t r = 0; r < cases.size(); ++r) {
      const std::string what = "vocabulary " + std::to_string(vocabulary) + ", round " + std::to_string(round) +
                               ", row " + std::to_string(r);
      expect_same(got[r], want[r], what);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(SampleMatch, TinyVocabularies) {
  for (const int64_t n : {1, 2, 3, 5, 8}) match(n, 200, 4);
}
TEST(SampleMatch, Vocabulary100) { match(100, 500, 8); }
TEST(SampleMatch, Vocabulary1000) { match(1000, 200, 5); }
TEST(SampleMatch, Vocabulary8193) { match(8193, 40, 3); }
TEST(SampleMatch, Vocabulary10000) { match(10000, 20, 3); }
TEST(SampleMatch, Vocabulary151936) { match(151936, 5, 2); }

TEST(SampleMatch, LongRepetitiveHistory) {
  Random random(9);
  for (const int period : {1, 2, 7, 400}) {
    Case c = random_case(random, 500);
    c.logits = random_logits(random, 500);
    for (float& l : c.logits) l = std::max(l, -20.0f);
    c.mask.clear();
    c.params.dry_multiplier = 0.8f;
    c.params.dry_base = 1.01f;
    c.params.dry_last_n = -1;
    c.params.temperature = 0;
    c.history.clear();
    for (int i = 0; i < 1500; ++i) c.history.push_back(i % period);
    expect_same(sample({c}, 1)[0], sample({c}, 0)[0], "period " + std::to_string(period));
  }
}

}  // namespace
}  // namespace ingot
