// The stages of a model on the CPU before the last: each a thread with worker threads, a program and the KV cache of
// its layers, that runs the steps which the engine sends, one after another, and hands their rows to the next stage. So
// many steps are in flight as there are stages, of disjoint seqs. The last stage is the CpuModel's own: it has the
// head.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "engine/model/known_ranks.h"
#include "engine/model/step_message.h"
#include "engine/model/step_model.h"
#include "graph/kv_store.h"
#include "graph/run.h"
#include "models/model.h"

namespace ingot {

class Stages {
 public:
  // Starts the threads; options.threads are all stages' together. REQUIRES: model.stages has several.
  Stages(const Model& model, const RunOptions& options, const std::vector<int>& pages);
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  int count() const { return static_cast<int>(lines_.size()); }
  // The last stage's own, for its runner.
  RunOptions last_options() const { return options_of(0); }
  // Until all others are ready. Throws what one of them threw.
  void await_ready();

  // The stages before the last begin the step: the engine's thread. Throws CommError once a stage was lost.
  void begin(const StepWork& work);
  // The rows of the oldest step that was begun and not received, into the last stage's program: its thread.
  void receive(const Runner& last, const Batch& batch);
  // The last stage has failed in a step: all stop, and no step runs any more.
  void abort(const std::string& reason);

  // Why no step runs any more; empty while all is well. Any thread may ask.
  std::string lost() const;
  int64_t kv_bytes() const { return kv_bytes_; }   // of the stages before the last
  RankMeter& meter() { return lines_[0]->meter; }  // the last stage's

  // Called by each stage's thread before a step, rank r being r stages before the last. For tests.
  std::function<void(int rank)> on_step;

 private:
  void join();
  std::vector<RankUse> use() const;
  RunOptions options_of(int rank) const;
  void run_stage(const Model& model, int rank);
  void run_steps(Runner& runner, KvStore& kv, int rank);

  const RunOptions options_;
  const std::vector<int> pages_;
  // Rank r is r stages before the last: `orders_` carry steps from rank 0, `lines_` rows from r to r - 1.
  std::vector<std::unique_ptr<Comm>> orders_, lines_;
  StepMessage message_;
  int64_t step_ = 0;
  int64_t kv_bytes_ = 0;  // written before all are ready

  mutable std::mutex mutex_;
  std::string lost_;  // guarded by mutex_, with what is below
  std::exception_ptr threw_;
  std::vector<std::thread> threads_;
  std::unique_ptr<KnownRanks> known_;
};

}  // namespace ingot
