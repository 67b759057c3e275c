// Which seqs run in the next step, and how many rows each: running ones first, in the order of their arrival, under
// the budget of rows; what is left goes to the chunks of prompts. When pages run out, the youngest seq gives its own
// back and is computed again later: the oldest can always go on, so every seq ends.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "engine/sequence.h"
#include "engine/state_slots.h"

namespace ingot {

struct SchedulerLimits {
  int rows = 0;   // of a step
  int seqs = 0;   // running at once
  int chunk = 0;  // rows of one seq in a step
};

class Scheduler {
 public:
  struct Item {
    Sequence* seq;
    int rows;
  };

  Scheduler(const SchedulerLimits& limits, KvPages& pages, StateSlots& slots)
      : limits_(limits), pages_(pages), slots_(slots) {}

  void add(std::unique_ptr<Sequence> seq) { waiting_.push_back(std::move(seq)); }
  // Ends a seq wherever it is and gives its pages back. False where there is no such seq.
  bool remove(SeqId id);

  // The next step; each item's seq has pages for its rows. Empty only when nothing is left to do.
  std::vector<Item> next();

  bool idle() const { return running_.empty() && waiting_.empty(); }
  int n_running() const { return static_cast<int>(running_.size()); }
  int n_waiting() const { return static_cast<int>(waiting_.size()); }
  int64_t n_preempted() const { return n_preempted_; }

 private:
  bool admit();
  bool reserve(Sequence& seq, int rows);
  void free(Sequence& seq);
  void preempt_last();

  const SchedulerLimits limits_;
  KvPages& pages_;
  StateSlots& slots_;
  std::deque<std::unique_ptr<Sequence>> running_;  // oldest first
  std::deque<std::unique_ptr<Sequence>> waiting_;  // next first
  int64_t n_preempted_ = 0;
};

}  // namespace ingot
