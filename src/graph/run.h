// Runs a program on the CPU step by step. Owns the program, the arena, the scratch memory and the worker pool.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "graph/expert_use.h"
#include "graph/kv_store.h"
#include "graph/outputs.h"
#include "graph/program.h"
#include "ops/batch.h"
#include "ops/ctx.h"
#include "tensor/memory.h"

namespace ingot {

class Comm;

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
  std::optional<DType> kv = {};     // as Target's
  Comm* comm = nullptr;             // of this rank, where the graph is one of several (shard.h)
  // The thread that makes the runner runs all its steps and starts no others: it is pinned where the pool is.
  bool own_thread = false;
};

// Single-threaded: the engine's thread alone calls it.
class Runner final : public StepOutputs {
 public:
  // Compiles the graph, binds the program to a new arena and prepares every op. Weights are packed into graph.packed,
  // where another program has not done so. The weights' published form must outlive the runner as far as it is not
  // replaced(), and bind() comes before the first run.
  Runner(const Graph& graph, const RunOptions& options);
  void bind(const KvStore& kv) { kv.bind(program_); }

  // The body over all rows of the batch. REQUIRES: the batch is within the limits.
  void run_body(const Batch& batch);
  // The head over batch.logit_row[0 … n_logits). May be called several times after one run_body().
  void run_head(const Batch& batch);

  const Tensor& output(const std::string& name) const override { return program_.outputs.at(name); }
  const Program& program() const { return program_; }
  ThreadPool& pool() { return pool_; }
  const RunOptions& options() const { return options_; }
  Ctx ctx(const Batch& batch);

  // Whether this program does not read the weight that begins there any more: a packed copy has taken its place.
  // Another program of the graph may. Once it is freed, a program can only be made that finds it packed.
  bool replaced(const std::byte* data) const;

  // Seconds that each node took since the last reset; empty unless profiling.
  void profile(bool on);
  const std::vector<double>& node_seconds() const { return node_seconds_; }
  // At any time, by any thread.
  ExpertUse expert_use() const { return experts_.now(); }
  // How often each expert of each layer with experts was chosen. Likewise.
  std::vector<std::vector<int64_t>> experts_chosen() const { return experts_.chosen(); }

 private:
  void run(size_t begin, size_t end, const Batch& batch);
  void give_back_tables(int rows);

  const RunOptions options_;
  ThreadPool pool_;
  Program program_;
  Memory arena_;
  Memory scratch_;
  Memory shared_;
  int64_t scratch_bytes_ = 0;
  std::vector<Weight> tables_;
  int table_rows_ = 0;  // read since their pages were given back
  std::vector<double> node_seconds_;
  ExpertCounters experts_;
  std::vector<size_t> expert_layers_;  // [nodes] layers with experts before it
};

}  // namespace ingot
