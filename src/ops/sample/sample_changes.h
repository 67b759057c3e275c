// Steps 1 and 2 of Sample as a short list: which tokens' logits change and how. What a device is told of a row's
// history, so that it need not see the history itself. Host only; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/sample/sample.h"

namespace ingot {

// A logit becomes ((x / repetition where x > 0, else x · repetition) - minus) - dry + plus, each step rounded to f32.
// One with a negative token adds its `plus` to the token before it once more.
struct TokenChange {
  int32_t token = -1;
  float repetition = 1, minus = 0, dry = 0, plus = 0;
};

class ChangeFinder {
 public:
  explicit ChangeFinder(int64_t vocabulary);

  // Appends the row's changes, of tokens in the vocabulary that its mask allows, each token once (and what adds to it).
  // Returns whether only these tokens are left (a bias of +inf was among them): then all others go.
  bool find(const SampleRow& row, std::vector<TokenChange>& out);

 private:
  struct Entry {
    TokenChange change;
    int32_t count = 0;  // in the output
    bool biased = false, forced = false;
  };
  Entry* entry(int32_t token);  // null outside the vocabulary
  void add_penalties(const SampleRow& row);
  void add_dry(const SampleRow& row);
  bool add_biases(const SampleRow& row);

  std::vector<int32_t> place_;  // [V] in entries_, -1 where none
  std::vector<Entry> entries_;
  std::vector<std::pair<int32_t, float>> more_;  // the second and later biases of a token
};

}  // namespace ingot
