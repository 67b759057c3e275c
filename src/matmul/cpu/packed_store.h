// Owns the packed panels of all weights of a graph: each weight is packed once, by all threads.
#pragma once

#include <map>
#include <memory>
#include <span>
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

// How the panels of some weights, counted through all of them, are cut into the tasks of packing them. A thread's share
// of the tasks is its share of the panels, as when they are read: so their pages lie in the memory node of the thread
// that will read them, as far as no other takes a task from it, and but for the huge pages at the borders.
struct PackCut {
  int64_t panels = 0;
  int64_t tasks = 0;

  PackCut(int64_t panels, int64_t bytes, int threads);
  int64_t begin(int64_t task) const { return panels * task / tasks; }
};

class PackedStore {
 public:
  explicit PackedStore(int64_t short_cols = kShortCols) : short_cols_(short_cols) {}

  // The weight in panels, or null where its format has none or its rows are short. The weight's own memory is not read
  // any more after this.
  const PackedWeight* pack(const Weight& weight, ThreadPool& pool) { return pack(std::span(&weight, 1), pool)[0]; }
  // The same for weights that are read in one loop, one behind the other.
  std::vector<const PackedWeight*> pack(std::span<const Weight> weights, ThreadPool& pool);

  int64_t bytes() const { return bytes_; }
  // Whether the weight that begins there is in panels.
  bool has(const std::byte* data) const {
    const auto known = packed_.lower_bound(Key{data, 0, 0});
    return known != packed_.end() && std::get<0>(known->first) == data;
  }

 private:
  using Key = std::tuple<const std::byte*, int64_t, int64_t>;  // a tied weight is asked for twice
  std::map<Key, std::unique_ptr<PackedWeight>> packed_;
  struct Job {
    const Weight* weight;
    const PackedWeight* packed;
    std::byte* memory;
  };
  std::byte* allocate(int64_t bytes);
  bool begin(const Weight& weight, std::vector<Job>& jobs, const PackedWeight*& packed);
  static void run(const Job& job, int64_t first, int64_t last);

  const int64_t short_cols_;
  std::vector<Memory> memory_;
  int64_t used_ = 0;  // of the last piece
  int64_t bytes_ = 0;
};

}  // namespace ingot
