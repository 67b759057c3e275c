// How layers of experts were used since the start: what steps read of a model with experts follows from it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace ingot {

struct ExpertUse {
  int64_t layers = 0;   // that ran, of all steps
  int64_t touched = 0;  // experts that some row met, of each of them
  int64_t busiest = 0;  // rows of the expert that most of them met, of each of them
};

// Told by the thread that runs steps, read by any.
class ExpertCounters {
 public:
  // Before the first layer runs: how many experts each layer with experts has.
  void begin(const std::vector<int64_t>& counts) {
    for (const int64_t count : counts) chosen_.emplace_back(static_cast<size_t>(count));
  }
  // A layer of `count` experts ran; row t met experts[t · stride + j], j < used. Its number among those with experts,
  // where begin() was called. 8 of 128: 0.25 µs for 32 rows.
  void add_layer(const int32_t* experts, int64_t stride, int64_t rows, int64_t used, int64_t count, size_t layer = 0) {
    rows_.assign(static_cast<size_t>(count), 0);
    int64_t touched = 0, busiest = 0;
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t j = 0; j < used; ++j) {
        const int64_t own = ++rows_[static_cast<size_t>(experts[t * stride + j])];
        touched += own == 1;
        busiest = std::max(busiest, own);
      }
    }
    for (size_t e = 0; e < rows_.size() && !chosen_.empty(); ++e)
      if (rows_[e] > 0) chosen_[layer][e].fetch_add(rows_[e], std::memory_order_relaxed);
    layers_.fetch_add(1, std::memory_order_relaxed);
    touched_.fetch_add(touched, std::memory_order_relaxed);
    busiest_.fetch_add(busiest, std::memory_order_relaxed);
  }
  ExpertUse now() const {
    return {.layers = layers_.load(std::memory_order_relaxed),
            .touched = touched_.load(std::memory_order_relaxed),
            .busiest = busiest_.load(std::memory_order_relaxed)};
  }

  // How often each expert of each layer was chosen.
  std::vector<std::vector<int64_t>> chosen() const {
    std::vector<std::vector<int64_t>> all;
    for (const auto& layer : chosen_) {
      std::vector<int64_t>& own = all.emplace_back();
      for (const std::atomic<int64_t>& count : layer) own.push_back(count.load(std::memory_order_relaxed));
    }
    return all;
  }

 private:
  std::vector<std::vector<std::atomic<int64_t>>> chosen_;
  std::vector<int64_t> rows_;  // of each expert of the layer that ran last
  std::atomic<int64_t> layers_ = 0, touched_ = 0, busiest_ = 0;
};

}  // namespace ingot
