// The clock of the steps: told what happens, it knows how long the model and the engine beside it took.
// Single-threaded: only the engine thread calls it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "engine/flights.h"
#include "engine/stats.h"

namespace ingot {

class StepMeter {
 public:
  explicit StepMeter(std::function<int64_t()> now_ns) : now_ns_(std::move(now_ns)) {}

  int64_t now() const { return now_ns_(); }

  // The engine turns to a step. `in_flight`: the model runs it already.
  void begin(bool in_flight) {
    begun_ns_ = now();
    ahead_ = in_flight;
  }
  // The model has ended it, or failed.
  void ended(const Flight& flight) {
    // One that was launched ahead began when the one in front had ended.
    const int64_t began = std::max(flight.launched_ns, ended_ns_);
    ended_ns_ = now();
    own_ns_ = ahead_ ? 0 : began - begun_ns_;
    last_ = {.seconds = 1e-9 * static_cast<double>(ended_ns_ - began),
             .rows = flight.plan.rows,
             .prompt_rows = flight.plan.prompt_rows,
             .seqs = static_cast<int>(flight.plan.items.size())};
  }
  // The engine is done with it. `in_flight`: the model runs the next already.
  void done(bool in_flight) {
    own_ns_ += in_flight ? 0 : now() - ended_ns_;
    busy_seconds_ += last_.seconds;
    ++steps_;
  }

  int64_t steps() const { return steps_; }
  const StepFacts& last() const { return last_; }  // that has ended
  void tell(EngineStats& stats) const {
    stats.steps = steps_;
    stats.busy_seconds = busy_seconds_;
    stats.step_seconds = last_.seconds;
    stats.own_seconds = 1e-9 * static_cast<double>(own_ns_);
  }

 private:
  const std::function<int64_t()> now_ns_;
  int64_t steps_ = 0;
  StepFacts last_;
  double busy_seconds_ = 0;
  int64_t begun_ns_ = 0, ended_ns_ = 0, own_ns_ = 0;
  bool ahead_ = false;
};

}  // namespace ingot
