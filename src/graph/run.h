// Runs a planned graph step by step. Owns the arena, the scratch memory and the worker pool.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "graph/graph.h"
#include "graph/outputs.h"
#include "matmul/cpu/packed_store.h"
#include "ops/batch.h"
#include "ops/ctx.h"
#include "tensor/memory.h"

namespace ingot {

// Which versions of the ops run.
enum class Kernels : uint8_t {
  kFast,  // the CPU versions
  kRef,   // the plain reference
};

struct RunOptions {
  StepLimits limits;
  int threads = 1;
  Kernels kernels = Kernels::kFast;
  int64_t short_cols = kShortCols;  // as PackedStore's
  // The thread that makes the runner runs all its steps and starts no others: it is pinned where the pool is.
  bool own_thread = false;
};

// Single-threaded: the engine's thread alone calls it.
class Runner final : public StepOutputs {
 public:
  // Plans the graph, binds it to a new arena and prepares every op. `graph` must outlive the runner, and its KV
  // layers must be bound (KvStore::bind) before the first run.
  Runner(Graph& graph, const RunOptions& options);

  // The body over all rows of the batch. REQUIRES: the batch is within the limits.
  void run_body(const Batch& batch);
  // The head over batch.logit_row[0 … n_logits). May be called several times after one run_body().
  void run_head(const Batch& batch);

  const Tensor& output(const std::string& name) const override { return graph_.outputs.at(name); }
  ThreadPool& pool() { return pool_; }
  const RunOptions& options() const { return options_; }
  Ctx ctx(const Batch& batch);

  // Whether nobody reads the weight that begins there any more: a packed copy has taken its place.
  bool replaced(const std::byte* data) const;

  // Seconds that each node took since the last reset; empty unless profiling.
  void profile(bool on);
  const std::vector<double>& node_seconds() const { return node_seconds_; }

 private:
  void run(size_t begin, size_t end, const Batch& batch);
  void give_back_tables(int rows);

  Graph& graph_;
  const RunOptions options_;
  ThreadPool pool_;
  Memory arena_;
  Memory scratch_;
  Memory shared_;
  PackedStore packed_;
  int64_t scratch_bytes_ = 0;
  std::vector<Weight> tables_;  // of embeddings
  int table_rows_ = 0;          // read since their pages were given back
  std::vector<double> node_seconds_;
};

}  // namespace ingot
