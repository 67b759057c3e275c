// For the tests of Sample: rows that own what they point to, and both versions run on them.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/ops_test_support.h"

namespace ingot::test {

// One row of a test: its logits, parameters and everything that SampleRow only points to.
struct Case {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<int32_t> history;
  int64_t prompt_tokens = 0;
  std::vector<uint32_t> mask;
  int32_t choice = 0;
  int32_t position = 0;
};

inline std::vector<SampleRow> rows_of(const std::vector<Case>& cases) {
  std::vector<SampleRow> rows;
  for (const Case& c : cases) rows.push_back({&c.params, c.history, c.prompt_tokens, c.mask, c.choice, c.position});
  return rows;
}

// Runs all cases, of one vocabulary, as the rows of one op. threads 0: ref.
inline std::vector<SampleResult> sample(const std::vector<Case>& cases, int threads) {
  const int64_t vocabulary = static_cast<int64_t>(cases.at(0).logits.size());
  Buffer logits(static_cast<int64_t>(cases.size()), vocabulary, kLogitRows, vocabulary + 5);
  for (size_t r = 0; r < cases.size(); ++r)
    for (int64_t v = 0; v < vocabulary; ++v)
      logits.at(static_cast<int64_t>(r), v) = cases[r].logits[static_cast<size_t>(v)];
  const std::vector<float> before = logits.values();
  const std::vector<SampleRow> rows = rows_of(cases);
  std::vector<SampleResult> results(rows.size(), SampleResult{-7, -7, {{-7, -7}}});
  const Sample op{logits.tensor(), rows, results};
  const Batch batch = rows_batch(static_cast<int>(rows.size()));
  if (threads == 0) {
    run_ref(op, batch);
  } else {
    run_cpu(op, batch, threads);
  }
  expect_same_bits(logits.values(), before, "the logits are only read");
  return results;
}

inline SampleResult sample_one(const Case& c) { return sample({c}, 1).at(0); }

// The same row at the positions [0, n): how often each token is drawn. The logits are shared, not copied.
inline std::vector<int> draw_counts(const Case& c, int n) {
  Buffer logits(1, static_cast<int64_t>(c.logits.size()), kLogitRows);
  for (size_t v = 0; v < c.logits.size(); ++v) logits.at(0, static_cast<int64_t>(v)) = c.logits[v];
  std::vector<SampleRow> rows(static_cast<size_t>(n),
                              {&c.params, c.history, c.prompt_tokens, c.mask, c.choice, c.position});
  for (int i = 0; i < n; ++i) rows[static_cast<size_t>(i)].position = i;
  std::vector<SampleResult> results(rows.size());
  Tensor shared = logits.tensor();
  shared.stride = 0;
  run_cpu(Sample{shared, rows, results}, rows_batch(1), 2);
  std::vector<int> counts(c.logits.size());
  for (const SampleResult& r : results) ++counts.at(static_cast<size_t>(r.token));
  return counts;
}

// The tokens that are ever drawn.
inline std::vector<int32_t> drawn(const Case& c, int n = 20000) {
  const std::vector<int> counts = draw_counts(c, n);
  std::vector<int32_t> result;
  for (size_t v = 0; v < counts.size(); ++v)
    if (counts[v] > 0) result.push_back(static_cast<int32_t>(v));
  return result;
}

// Pearson's statistic of the counts against the probabilities, in standard deviations of a normal variable
// (the cube root of chi-square over its degrees of freedom is nearly one).
inline double chi_square_sigma(const std::vector<int>& counts, const std::vector<double>& probability) {
  double n = 0, chi = 0, bins = 0;
  for (const int c : counts) n += c;
  for (size_t v = 0; v < counts.size(); ++v) {
    if (probability[v] == 0) {
      if (counts[v] > 0) return 1e9;
      continue;
    }
    const double expected = n * probability[v];
    chi += (counts[v] - expected) * (counts[v] - expected) / expected;
    bins += 1;
  }
  if (bins < 2) return 0;
  const double variance = 2 / (9 * (bins - 1));
  return (std::cbrt(chi / (bins - 1)) - (1 - variance)) / std::sqrt(variance);
}

inline std::vector<double> softmax_of(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  double sum = 0;
  for (const float l : logits) sum += std::exp(l / temperature);
  for (const float l : logits) p.push_back(std::exp(l / temperature) / sum);
  return p;
}

}  // namespace ingot::test
