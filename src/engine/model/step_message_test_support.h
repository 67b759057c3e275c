// Steps as an engine might launch them, at random, and damage to their messages.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "base/random_test_support.h"
#include "engine/model/step_message.h"

namespace ingot::test {

// Of distinct pages. REQUIRES: each group has more pages than all seqs can hold.
inline StepWork random_step(Random& random, const StepLimits& limits, const std::vector<PageGroup>& groups) {
  StepWork work;
  work.batch = Batch(limits, static_cast<int>(groups.size()));
  Batch& batch = work.batch;
  std::vector<std::vector<int32_t>> free;
  for (const PageGroup& group : groups) {
    std::vector<int32_t>& pages = free.emplace_back(static_cast<size_t>(group.pages));
    std::iota(pages.begin(), pages.end(), 0);
    for (size_t i = 1; i < pages.size(); ++i)
      std::swap(pages[i], pages[static_cast<size_t>(random.below(static_cast<int64_t>(i) + 1))]);
  }
  const auto below = [&](int n) { return static_cast<int>(random.below(n)); };
  batch.n_seqs = 1 + below(limits.seqs);
  for (int s = 0; s < batch.n_seqs; ++s) {
    const auto si = static_cast<size_t>(s);
    const int rows = 1 + below(limits.rows / limits.seqs), begin = below(limits.context - rows + 1);
    batch.kv_len[si] = begin + rows;
    batch.q_start[si] = batch.n_rows;
    for (size_t g = 0; g < groups.size(); ++g) {
      int32_t* const pages = batch.groups[g].page_table.data() + s * batch.pages_per_seq;
      const int left = groups[g].window > 0 ? std::max(0, begin - groups[g].window + 1) / limits.page_rows : 0;
      for (int i = left; i * limits.page_rows < begin + rows; ++i) {
        pages[i] = free[g].back();
        free[g].pop_back();
      }
      for (int i = 0; i < rows; ++i)
        batch.groups[g].slot[static_cast<size_t>(batch.n_rows + i)] =
            pages[(begin + i) / limits.page_rows] * limits.page_rows + (begin + i) % limits.page_rows;
    }
    for (int i = 0; i < rows; ++i, ++batch.n_rows) {
      const auto t = static_cast<size_t>(batch.n_rows);
      batch.token[t] = below(256);
      batch.position[t] = begin + i;
      batch.seq[t] = s;
    }
  }
  batch.q_start[static_cast<size_t>(batch.n_seqs)] = batch.n_rows;
  for (int n = below(3); n > 0; --n) {
    const int g = below(static_cast<int>(groups.size())), pages = groups[static_cast<size_t>(g)].pages;
    const int from = below(pages);
    work.copies.push_back({.group = g, .from = from, .to = (from + 1 + below(pages - 1)) % pages});
  }
  return work;
}

inline std::vector<std::byte> random_message(Random& random, const StepLimits& limits,
                                             const std::vector<PageGroup>& groups) {
  const StepWork work = random_step(random, limits, groups);
  std::vector<int32_t> logits(static_cast<size_t>(random.below(limits.logits + 1)));
  for (int32_t& row : logits) row = static_cast<int32_t>(random.below(work.batch.n_rows));
  StepMessage message;
  message.write_step(work, limits, random.below(1000), logits, random.below(2) == 0);
  return {message.bytes().begin(), message.bytes().end()};
}

// One to three words become others: near, small, or any.
inline std::vector<std::byte> damaged(Random& random, std::vector<std::byte> message) {
  for (int64_t n = 1 + random.below(3); n > 0; --n) {
    std::byte* const at = message.data() + random.below(static_cast<int64_t>(message.size()) / 4) * 4;
    int32_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    const int64_t kind = random.below(3);
    word = static_cast<int32_t>(kind == 0   ? uint64_t(word) + random.bits() % 5 - 2
                                : kind == 1 ? uint64_t(random.below(70) - 2)
                                            : random.bits());
    std::memcpy(at, &word, sizeof(word));
  }
  return message;
}

}  // namespace ingot::test
