// The engine's heart: requests of token ids in, tokens out, one step after another. Read step() first (core.cpp); how
// requests come is in core_submit.cpp, how they leave in core_end.cpp, what happens while the model runs in
// core_ahead.cpp, how masks come to it in core_masks.cpp, and what becomes of a step that has ended in
// core_collect.cpp.
// Single-threaded and deterministic: model and clock come from outside, so that a simulation can run it.
//
// Memory: what steps need is reserved when the core is made, and for each seq, up to its longest answer, when it
// begins. A step allocates nothing but for a seq that begins in it for the first time, with these exceptions: logprobs,
// which its events carry away; what a request's own parts do (constraint, drafter, reports); rows of prompts whose
// logits or hidden states are reported; a deadline that passes; and a prefix cache with more nodes than pages.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/cache/kv_pages.h"
#include "engine/cache/prefix_cache.h"
#include "engine/cache/state_slots.h"
#include "engine/config.h"
#include "engine/flights.h"
#include "engine/model/step_model.h"
#include "engine/request.h"
#include "engine/schedule/admission.h"
#include "engine/schedule/pace.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "engine/stats.h"
#include "engine/step_meter.h"

namespace ingot {

// What the core is told beside its configuration: facts of the model, and what only a simulation replaces.
struct CoreOptions {
  int vocab = 0;
  int context = 0;                // positions of one seq
  int logit_rows = 0;             // of one run of the head
  double head_rows = 0;           // what a run of the head costs for a row, in rows of the body
  std::vector<PageGroup> groups;  // of the KV cache
  std::string kv_format = "f32";  // pages of different formats have different addresses
  bool has_state = false;         // the model has recurrent state
  bool has_hidden = false;        // the model keeps its last hidden state
  int snapshots = 0;              // states that the prefix cache may keep
  int stages = 1;                 // of the model: so many steps, of disjoint seqs, are in flight
  uint64_t hash_key = 0;
  int hash_bits = 64;
  std::function<int64_t()> now_ns;  // the clock; the steady clock where empty
  MaskWorkers* masks = nullptr;     // outlives the core; null: its own thread makes masks when they are asked for
};

class EngineCore {
 public:
  // Steps that may be in flight at once: one runs, and one behind it keeps the device from waiting for the host.
  static constexpr int kFlights = 2;

  // REQUIRES: a model that runs ahead takes `flights` steps at once.
  EngineCore(StepModel& model, const EngineConfig& config, const CoreOptions& options, int flights = kFlights);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Choice c gets the id `id` + c, which no other has; -1: the next of the core's own, from 1 on, if it is let in. One
  // that brings an id has been let in already (admission()). It waits since `came_ns` of the core's clock; 0: since
  // now.
  Submitted submit(Request request, SeqId id = -1, int64_t came_ns = 0);
  // Who is let in: any thread may ask.
  Admission& admission() { return admission_; }
  // Tells admission() how things stand.
  void tell_admission() { admission_.tell(scheduler_.tenants()); }
  // Why the request can never be served; empty where it can. Any thread may ask.
  std::string refusal(const Request& request) const;
  // The request ends at once; no event is made. False where there is none of this id.
  bool cancel(SeqId request);
  // The same for one choice of it.
  bool cancel(SeqId request, int choice);

  // One step of all seqs that the scheduler picks, collected. The next may be in flight already when it returns. The
  // events are valid until the next call.
  std::span<Event> step();
  // A step was launched ahead: the next call of step() collects it.
  bool flying() const { return flights_.flying(); }
  // False: from now on no step is launched before the one in front was collected.
  bool run_ahead = true;
  // Called while the step runs: a time for work that needs no result of it.
  std::function<void()> while_running;
  // True: a file of the model was cut short, and what was computed from it is worth nothing.
  std::function<bool()> damaged;

  bool idle() const { return seqs_.empty() && !flying(); }
  EngineStats stats() const;
  int64_t n_steps() const { return meter_.steps(); }
  const StepFacts& last_step() const { return meter_.last(); }  // REQUIRES: n_steps() > 0
  const CoreOptions& options() const { return options_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const KvPages& pages() const { return pages_; }
  const PrefixCache* prefix() const { return prefix_.get(); }

 private:
  // The parts of step().
  void take();
  bool plan();
  bool launch(Flight& flight);
  void prepare();
  void collect(Flight& flight);
  void fail(Flight& flight);

  void propose();
  // Masks: core_masks.cpp.
  void ask_masks(const Flight& flight, int awaited);
  void ask_mask(Sequence& seq, std::span<const int32_t> draft);
  bool has_masks(const Plan& plan) const;
  void await_masks(Flight& flight);
  void draw(Flight& flight);
  void hand_masks(Flight& flight);
  void put_off(Flight& flight, Plan::Item& item, size_t first);
  void withdraw(Flight& flight, const Sequence& seq);
  void charge_seconds(Sequence& seq, double seconds);
  void leave(const Sequence& seq);
  void charge_those_that_left();
  void drop(std::shared_ptr<MaskTask> masking);
  bool goes_ahead() const { return run_ahead && model_.runs_ahead() && !options_.has_state; }
  void foresee();
  int room_for_guesses() const;

  void plan_ahead(Flight& next);
  bool may_launch(const Flight& next);
  bool launch_ahead(Flight& next);
  void collect_item(Flight& flight, const Plan::Item& item, size_t first);
  void end_those_that_threw(const Flight& flight);
  bool take_token(Sequence& seq, SampleResult result);
  void settle(Sequence& seq, int rows);
  std::vector<StateOp>& next_states();
  void keep_state(Sequence& seq);
  void release_choices(Sequence& seq);

  std::unique_ptr<Sequence> make_seq(const std::shared_ptr<const Request>& request, SeqId id, int choice,
                                     int64_t came_ns);
  void expire();
  void await_deadline(int64_t ns);
  void end(Sequence& seq, FinishReason finish, const char* reason = nullptr);
  void tell(Sequence& seq, SampleResult result, FinishReason finish);
  void sweep();
  void erase(Sequence& seq);
  void free_seq(std::unique_ptr<Sequence> seq);
  void free_gone(Flight& flight);
  // Of a step in which none expires.
  size_t most_events() const { return static_cast<size_t>(limits_.seqs) * static_cast<size_t>(3 + config_.max_draft); }
  // Runs what may throw on behalf of one seq: if it does, that seq ends and no other notices.
  template <class F>
  void guard(Sequence& seq, F&& body) {
    try {
      body();
    } catch (const ConstraintError& error) {
      end(seq, FinishReason::kConstraint, error.what());
    } catch (...) {
      end(seq, FinishReason::kError);
    }
  }

  // Runs what a seq's constraint does on this thread: its tenant pays for that as for its masks.
  template <class F>
  decltype(auto) paid_by(Sequence& seq, F&& body) {
    struct Meter {
      EngineCore& core;
      Sequence& seq;
      const int64_t from = core.meter_.now();
      ~Meter() { core.charge_seconds(seq, 1e-9 * static_cast<double>(core.meter_.now() - from)); }
    } meter{*this, seq};
    return body();
  }

  StepModel& model_;
  const EngineConfig config_;
  const CoreOptions options_;
  const StepLimits limits_;
  KvPages pages_;
  std::unique_ptr<PrefixCache> prefix_;
  StateSlots slots_;
  Pace pace_;
  Scheduler scheduler_;
  Admission admission_;
  int64_t told_read_ = 0, told_begun_ = 0;  // as Scheduler::n_read() and n_begun(), when the last step ended
  Flights flights_;
  StepMeter meter_;
  double row_seconds_ = 0;  // of a row in the last steps: the price of masks
  // Of seqs that have gone while a worker made their masks: their tenants still pay.
  std::vector<std::pair<std::shared_ptr<MaskTask>, std::string>> left_;
  std::unordered_map<SeqId, std::unique_ptr<Sequence>> seqs_;
  std::vector<Event> events_;
  std::vector<Sequence*> ended_;  // to be erased by sweep()
  EngineStats stats_;             // but for what others count
  int64_t next_deadline_ns_ = 0;
  SeqId next_id_ = 1;
};

}  // namespace ingot
