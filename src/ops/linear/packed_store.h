// Owns the packed panels of all weights of a graph: each weight is packed once, by all threads.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/thread_pool.h"
#include "quant/panels.h"
#include "tensor/memory.h"

namespace ingot {

// Weights of up to this many columns stay in float unless they are 16-bit: a model so small is not limited by memory,
// and a short sum averages less of the rounding of x away (a random model of width 256 in 13 formats: normalized
// squared errors of the logits up to 1.6e-3, 1e-7 in float).
inline constexpr int64_t kShortCols = 512;

class PackedStore {
 public:
  explicit PackedStore(int64_t short_cols = kShortCols) : short_cols_(short_cols) {}

  // The weight in panels, or null where its format has none or its rows are short. The weight's own memory is not read
  // any more after this.
  const PackedWeight* pack(const Weight& weight, ThreadPool& pool);

  int64_t bytes() const { return bytes_; }
  // Whether the weight that begins there is in panels.
  bool has(const std::byte* data) const {
    const auto known = packed_.lower_bound(Key{data, 0, 0});
    return known != packed_.end() && std::get<0>(known->first) == data;
  }

 private:
  using Key = std::tuple<const std::byte*, int64_t, int64_t>;  // a tied weight is asked for twice
  std::map<Key, std::unique_ptr<PackedWeight>> packed_;
  std::byte* allocate(int64_t bytes);

  const int64_t short_cols_;
  std::vector<Memory> memory_;
  int64_t used_ = 0;  // of the last piece
  int64_t bytes_ = 0;
};

}  // namespace ingot
