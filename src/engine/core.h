// The engine's heart: requests of token ids in, tokens out, one step after another. Read step() first.
// Single-threaded and deterministic: model and clock come from outside, so that a simulation can run it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/config.h"
#include "engine/kv_pages.h"
#include "engine/model/step_model.h"
#include "engine/pace.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/state_slots.h"

namespace ingot {

// What the core is told beside its configuration: facts of the model, and what only a simulation replaces.
struct CoreOptions {
  int vocab = 0;
  int context = 0;                // positions of one seq
  int logit_rows = 0;             // of one run of the head
  std::vector<PageGroup> groups;  // of the KV cache
  std::string kv_format = "f32";  // pages of different formats have different addresses
  bool has_state = false;         // the model has recurrent state
  bool has_hidden = false;        // the model keeps its last hidden state
  int snapshots = 0;              // states that the prefix cache may keep
  uint64_t hash_key = 0;
  int hash_bits = 64;
  std::function<int64_t()> now_ns;  // the clock; the steady clock where empty
};

// One step that ran.
struct StepFacts {
  double seconds = 0;  // of the model
  int rows = 0;
  int prompt_rows = 0;  // of them, rows of prompts
  int seqs = 0;
};

// Counted since the start, but for the last group.
struct EngineStats {
  int64_t steps = 0, failed_steps = 0;
  int64_t rows = 0;           // computed
  int64_t ahead = 0;          // steps that were launched before the one in front had ended
  int64_t orphans = 0;        // seqs of such steps that ended meanwhile: computed for nothing
  int64_t tokens = 0;         // made
  int64_t prompt_tokens = 0;  // of requests that began
  int64_t reused_tokens = 0;  // of them, found in the prefix cache
  int64_t drafted = 0, accepted = 0;
  int64_t preempted = 0, evicted = 0;
  int64_t submitted = 0, refused = 0, busy = 0;
  int64_t finished = 0, cancelled = 0, errors = 0, expired = 0;
  int64_t stopped = 0;      // single choices that their caller had enough of
  double busy_seconds = 0;  // of all steps
  double step_seconds = 0;  // of the last step
  double own_seconds = 0;   // of it, when the model did not run

  int running = 0, waiting = 0;
  int64_t pages = 0, free_pages = 0, cached_pages = 0;
  int64_t kv_bytes = 0;  // of the KV cache; 0 in the stats of a core, which knows pages alone
};

class EngineCore {
 public:
  EngineCore(StepModel& model, const EngineConfig& config, const CoreOptions& options);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Choice c gets the id `id` + c, which no other has; -1: the next of the core's own, from 1 on. It waits since
  // `came_ns` of the core's clock; 0: since now.
  Submitted submit(Request request, SeqId id = -1, int64_t came_ns = 0);
  // Why the request can never be served; empty where it can. Any thread may ask.
  std::string refusal(const Request& request) const;
  // The request ends at once; no event is made. False where there is none of this id.
  bool cancel(SeqId request);
  // The same for one choice of it.
  bool cancel(SeqId request, int choice);

  // One step of all seqs that the scheduler picks, collected. The next may be under way already when it returns. The
  // events are valid until the next call.
  std::span<Event> step();
  // A step was launched ahead: the next call of step() collects it.
  bool flying() const { return plans_[current_].launched; }
  // False: from now on no step is launched before the one in front was collected.
  bool run_ahead = true;
  // Called while the step runs: a time for work that needs no result of it.
  std::function<void()> while_running;
  // True: a file of the model was cut short, and what was computed from it is worth nothing.
  std::function<bool()> damaged;

  bool idle() const { return seqs_.empty() && !flying(); }
  EngineStats stats() const;
  int64_t n_steps() const { return stats_.steps; }
  const StepFacts& last_step() const { return last_step_; }  // REQUIRES: n_steps() > 0
  const CoreOptions& options() const { return options_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const KvPages& pages() const { return pages_; }
  const PrefixCache* prefix() const { return prefix_.get(); }

 private:
  std::unique_ptr<Sequence> make_seq(const std::shared_ptr<const Request>& request, SeqId id, int choice,
                                     int64_t came_ns);
  void expire();
  void propose();
  void make_plan();
  bool launch(size_t which);
  void prepare_next();
  bool may_launch_next() const;
  void launch_next();
  void collect();
  void collect_item(const Plan::Item& item, size_t first);
  bool take_token(Sequence& seq, SampleResult result);
  void settle(Sequence& seq, int rows);
  void keep_state(Sequence& seq);
  void fail();
  void end(Sequence& seq, FinishReason finish);
  void tell(Sequence& seq, SampleResult result, FinishReason finish);
  void await_deadline(int64_t ns);
  void sweep(Plan& planned);
  void erase(Sequence& seq, Plan& planned);
  void leave_choices(Sequence& seq);
  // Runs what may throw on behalf of one seq: if it does, that seq ends and no other notices.
  template <class F>
  void guard(Sequence& seq, F&& body) {
    try {
      body();
    } catch (...) {
      end(seq, FinishReason::kError);
    }
  }
  Plan& plan() { return plans_[current_]; }
  Plan& next_plan() { return plans_[1 - current_]; }
  // The one that is not launched yet.
  Plan& open_plan() { return flying() ? next_plan() : plan(); }

  StepModel& model_;
  const EngineConfig config_;
  const CoreOptions options_;
  const StepLimits limits_;
  KvPages pages_;
  std::unique_ptr<PrefixCache> prefix_;
  StateSlots slots_;
  Pace pace_;
  Scheduler scheduler_;
  Plan plans_[2];
  StepWork works_[2];
  size_t current_ = 0;
  std::unordered_map<SeqId, std::unique_ptr<Sequence>> seqs_;
  std::vector<Event> events_;
  std::vector<Sequence*> ended_;  // to be erased by sweep()
  EngineStats stats_;
  StepFacts last_step_;
  int64_t ended_ns_ = 0;  // when it had ended
  int64_t next_deadline_ns_ = 0;
  SeqId next_id_ = 1;
};

}  // namespace ingot
