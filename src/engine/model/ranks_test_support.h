// What tests of one model on several ranks or stages have in common.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/data_test_support.h"
#include "engine/local_engine.h"
#include "engine/model/known_ranks.h"
#include "engine/model/programs_test_support.h"

namespace ingot {

inline EngineConfig small_config(int threads) {
  return {.threads = threads, .max_seqs = 2, .step_rows = 32, .chunk_rows = 13, .page_rows = 16, .short_cols = 0};
}

inline void expect_same_bits(const Logits& got, const Logits& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t r = 0; r < want.size(); ++r)
    ASSERT_EQ(std::memcmp(got[r].data(), want[r].data(), want[r].size() * sizeof(float)), 0) << what << ", row " << r;
}

// Two seqs in steps of both, 40 and 25 positions.
inline Logits run_both(const Model& model, int threads, Kernels kernels = Kernels::kFast) {
  EngineConfig config = small_config(threads);
  config.kernels = kernels;
  LocalEngine engine(model, config);
  Logits logits, other;
  submit(engine, some_tokens(40, 1), logits);
  submit(engine, some_tokens(25, 2), other);
  while (!engine.idle()) engine.step();
  logits.insert(logits.end(), other.begin(), other.end());
  return logits;
}

inline std::vector<std::string> architectures_here() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(committed_data("arch")))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// Of the process, once `good` says so; for at most 5 s.
inline std::vector<RankUse> known_once(const std::function<bool(const std::vector<RankUse>&)>& good) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::vector<RankUse> known = known_ranks();
  for (; !good(known) && std::chrono::steady_clock::now() < end; known = known_ranks())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return known;
}

}  // namespace ingot
