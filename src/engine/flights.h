// The steps that are planned or in flight, in a ring that is made at the start: steps are launched and collected in
// order, so one after the other takes the place of the oldest.
//
//   front()                newest()    next()
//     │  in flight: launched   │          │ planned, not launched
//     ▼  and not retired       ▼          ▼
//   [ n ] [ n + 1 ]  …     [ n + k ]   [ n + k + 1 ]
//
// Single-threaded: only the engine thread calls it.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "engine/model/step_model.h"
#include "engine/schedule/scheduler.h"

namespace ingot {

// One step on its way. Whatever it grows by is reserved when it is made.
struct Flight {
  Plan plan;
  StepWork work;
  int64_t number = 0;       // counts launches, from 1 on
  int64_t launched_ns = 0;  // when the launch began
  bool idled = false;       // its rows had run before its masks were there: its time is not what rows take
  // Those that ended while it was in flight: what its rows and samples read of them stays until it has ended.
  std::vector<std::unique_ptr<Sequence>> gone;
};

class Flights {
 public:
  // `n` of them: so many steps may be in flight at once. REQUIRES: n >= 2, since one is planned while another runs.
  Flights(int n, const StepLimits& limits, int n_groups, int max_draft) : ring_(static_cast<size_t>(n)) {
    CHECK(n >= 2, "{} flights", n);
    const auto seqs = static_cast<size_t>(limits.seqs), groups = static_cast<size_t>(n_groups);
    const auto guesses = static_cast<size_t>(max_draft);
    const size_t sampled = std::min(seqs * (1 + guesses), static_cast<size_t>(limits.rows));
    for (Flight& flight : ring_) {
      flight.plan.reserve(seqs, groups, guesses);
      flight.gone.reserve(seqs);
      flight.work.batch = Batch(limits, n_groups);
      flight.work.copies.reserve(flight.plan.copies.capacity());
      flight.work.states.reserve(flight.plan.states.capacity());
      flight.work.logits.reserve(sampled);
      flight.work.samples.reserve(sampled);
      flight.work.results.reserve(sampled);
      flight.work.threw.reserve(sampled);
      flight.work.hidden.reserve(seqs);
    }
  }

  int in_flight() const { return in_flight_; }
  bool flying() const { return in_flight_ > 0; }
  // The oldest in flight; the next one where none is.
  Flight& front() { return at(0); }
  // The last that was launched. REQUIRES: flying().
  const Flight& newest() const { return ring_[place(in_flight_ - 1)]; }
  // The one to launch next; null while all are in flight, and then nobody is planned.
  Flight* next() { return in_flight_ < static_cast<int>(ring_.size()) ? &at(in_flight_) : nullptr; }

  // next() is in flight from now on. REQUIRES: there is one.
  void launched() {
    CHECK(next(), "all {} flights are under way", in_flight_);
    next()->number = ++launches_;
    ++in_flight_;
  }
  // The oldest has been collected: its place is free for another. REQUIRES: flying(); nobody is in its `gone`.
  void retire() {
    CHECK(flying(), "no step is in flight");
    front().plan.clear();
    first_ = place(1);
    --in_flight_;
  }
  // None is in flight or planned any more. REQUIRES: the model has ended all; nobody is marked as planned or in `gone`.
  void clear() {
    for (Flight& flight : ring_) flight.plan.clear();
    in_flight_ = 0;
  }

  // f(flight) of those in flight, the oldest first.
  template <class F>
  void each_in_flight(F&& f) {
    for (int i = 0; i < in_flight_; ++i) f(at(i));
  }
  // f(flight) of all.
  template <class F>
  void each(F&& f) {
    for (Flight& flight : ring_) f(flight);
  }

 private:
  size_t place(int i) const { return (first_ + static_cast<size_t>(i)) % ring_.size(); }
  Flight& at(int i) { return ring_[place(i)]; }

  std::vector<Flight> ring_;
  size_t first_ = 0;
  int in_flight_ = 0;
  int64_t launches_ = 0;
};

}  // namespace ingot
