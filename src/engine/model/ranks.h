// The ranks of a model on the CPU beside rank 0, which share its layers, or are stages of some of them, or both
// (engine/model/rank_links.h has their numbers): each a thread of this process, or a process of its world
// (comm/world.h), with worker threads, a program and a KV cache of its own, that runs the steps which rank 0 sends.
// Rank 0's threads run its own part and call what is below. With stages, as many steps are in flight as there are, of
// disjoint seqs.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/model/known_ranks.h"
#include "engine/model/rank_links.h"
#include "engine/model/step_message.h"
#include "engine/model/step_model.h"
#include "graph/kv_store.h"
#include "graph/run.h"
#include "models/model.h"

namespace ingot {

class PaperComm;

// A rank other than 0: packs its part of the model and runs the steps that rank 0 sends, until that ends. Calls
// on_ready once it is packed, before rank 0 hears of it, and on_step before each step. Throws CommError once a rank was
// lost, and what packing and on_ready throw.
void follow(const Graph& part, const RunOptions& options, const std::vector<int>& pages, const RankLinks& links,
            const std::function<void(int rank)>& on_step = {}, const std::function<void()>& on_ready = {});

class Ranks {
 public:
  // Starts the threads; options.threads are all ranks' together. In a process with others (World::joined()) those
  // follow(), and the threads are this one's own. With options.comm the others are on paper (comm/comm_paper.h): there
  // are none, and what is rank 0's here is the comm's rank's. REQUIRES: model.ranks has several; on paper that rank is
  // of the last stage.
  Ranks(const Model& model, const RunOptions& options, const std::vector<int>& pages);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Which of model.ranks this is: 0, but on paper.
  int rank() const { return own().rank; }
  // Rank 0's own, for its runner.
  RunOptions first_options() const { return options_of(0); }
  // Until all others are ready. Throws what one of them threw.
  void await_ready();

  // The stages before the last begin the step: the engine's thread. Throws CommError once a rank was lost.
  void launch(const StepWork& work);
  // All that is below but abort(): the thread of rank 0's steps. They throw CommError once a rank was lost.
  // The others of the last stage begin the oldest step that was launched and not begun, and its head with the first
  // `logits` rows.
  void begin(const StepWork& work, size_t logits);
  // With stages: the rows of that step, into rank 0's program.
  void receive(const Runner& first, const Batch& batch);
  // The others run the head again for `count` rows from `first` on.
  void run_head(const StepWork& work, size_t first, size_t count);
  // Rank 0 has run its part: what the others have counted is taken, where they were asked.
  void end();
  // Rank 0 has failed in a step: all ranks stop, and no step runs any more. Any thread.
  void abort(const std::string& reason);

  // Why no step runs any more; empty while all is well. Any thread may ask.
  std::string lost() const;
  int64_t kv_bytes() const { return kv_bytes_; }  // of the others
  RankMeter& meter() { return own().meter(); }    // rank 0's

  // Called by each rank's thread before a step. For tests.
  std::function<void(int rank)> on_step;

 private:
  void join();
  std::vector<RankUse> use() const;
  void ask_for_counts(int64_t step);
  RunOptions options_of(int rank) const;
  void run_rank(const Model& model, size_t rank);
  void send(size_t logits, size_t first, const StepWork& work);
  const RankLinks& own() const { return links_[0]; }

  const RunOptions options_;
  const std::vector<int> pages_;
  const int pp_, tp_;
  PaperComm* const paper_;        // null: the others exist
  const bool processes_;          // the others are
  std::vector<RankLinks> links_;  // of all ranks; rank 0's alone where the others are processes
  // Of the engine's thread.
  StepMessage order_;
  int64_t launched_ = 0;
  std::chrono::steady_clock::time_point asked_{};
  // Of the thread of rank 0's steps.
  StepMessage message_;
  std::vector<int32_t> logit_rows_;
  int64_t step_ = 0;
  int64_t kv_bytes_ = 0;
  // The step in which processes tell what they have counted; 0: none.
  std::atomic<int64_t> counted_step_{0};

  mutable std::mutex mutex_;
  std::string lost_;  // guarded by mutex_, with what is below
  std::exception_ptr threw_;
  std::vector<RankCounts> told_;  // [ranks] by those that are processes
  std::vector<std::thread> threads_;
  std::unique_ptr<KnownRanks> known_;
};

}  // namespace ingot
