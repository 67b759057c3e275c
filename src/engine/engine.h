// The engine: requests of token ids in, tokens out. Text never enters. Read step() first.
// Single-threaded: one thread submits, steps and reads the events.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/state_slots.h"
#include "graph/kv_store.h"
#include "graph/run.h"
#include "models/model.h"

namespace ingot {

struct EngineOptions {
  int threads = 1;
  int max_seqs = 1;
  int step_rows = 256;  // budget of rows for a step
  int chunk_rows = 0;   // rows of one seq in a step; 0: the whole budget
  int page_rows = 64;
  int pages = 0;  // of each KV group; 0: enough for max_seqs whole contexts
  Kernels kernels = Kernels::kFast;
};

// What happened to a seq in a step.
struct Event {
  SeqId seq = 0;
  SampleResult sample;  // sample.token is -1 where the step made none
  FinishReason finish = FinishReason::kNone;
};

// Either an id, or the reason why the request can never be served.
struct Submitted {
  SeqId id = -1;
  std::string refused;
};

class Engine {
 public:
  Engine(Model& model, const EngineOptions& options);

  Submitted submit(Request request);
  // The seq ends at once; no event is made.
  void cancel(SeqId id) { scheduler_.remove(id); }
  bool idle() const { return scheduler_.idle(); }

  // One step of all seqs that the scheduler picks. The events are valid until the next step.
  std::span<const Event> step();

  // Called after the body of each step, with named outputs in place.
  std::function<void(const Batch& batch, const Runner& runner)> on_body;

  const Model& model() const { return model_; }
  const EngineOptions& options() const { return options_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const KvPages& pages() const { return pages_; }
  int64_t kv_bytes() const { return kv_.bytes(); }
  Runner& runner() { return runner_; }

 private:
  // A row whose logits are wanted.
  struct Want {
    int row;
    Sequence* seq;
    int position;
    bool sample;
  };

  void fill(std::span<const Scheduler::Item> items);
  void fill_seq(int s, const Scheduler::Item& item);
  std::vector<Want> wants(std::span<const Scheduler::Item> items) const;
  void run_head(std::span<const Want> wants);
  void report_logits(std::span<const Want> wants);
  void collect(Sequence& seq, SampleResult result);
  std::string refusal(const Request& request) const;

  Model& model_;
  const EngineOptions options_;
  const StepLimits limits_;
  KvPages pages_;
  KvStore kv_;
  StateSlots slots_;
  Runner runner_;
  Scheduler scheduler_;
  Batch batch_;
  std::vector<Event> events_;
  SeqId next_id_ = 1;
};

}  // namespace ingot
